/* One step of an LSTM after its products with the weights, and that step's gradients, in float32:

       i, f, o = sigmoid, g = tanh of the gates;  c = f c_before + i g;  h = o tanh(c)

   Rows are packed: the longest sequence is the first row of every step. `order[r]` is where row r lies in the batch; what
   it is to be found at by others, the outputs and the last states, lies there. */

#include "vectors.h"

static const float FAR = 40.0f; /* sigmoid and tanh no longer change from there on */

static INLINE vec tanh_of(vec x)
{
    vec power;
    x = within(x + x, FAR);
    expm1_of(1, &x, &power);
    return x * reciprocal(x + 2.0f, 0.0f);
}

typedef struct {
    long rows, units, going_on;              /* the first `going_on` rows have a next step */
    long state_stride, output_stride;        /* from row to row, of the next states and of the outputs, in floats */
    const int64_t *order;
    long threads;
    const float *table;                      /* (.., 4 units), or null: row ids[r] of it is added to the gates */
    const int64_t *ids;
} step;

typedef struct {
    float *states, *cells;
} place;

/* The gates (rows, 4 units) become their activations. The state is written to `next`, (rows, units), or where a sequence
   ends to `last`; and the output. */
void lstm_step(const step *s, float *gates, const float *cells, const place *next, const place *last, float *outputs)
{
    long units = s->units;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long r = 0; r < s->rows; r++) {
        int on = r < s->going_on;
        float *state = on ? next->states + r * s->state_stride : last->states + s->order[r] * units;
        float *cell = on ? next->cells + r * units : last->cells + s->order[r] * units;
        float *output = outputs + s->order[r] * s->output_stride;
        const float *found = s->table ? s->table + s->ids[r] * 4 * units : 0;
        for (long k = 0; k < units; k += LANES) {
            lanes there = first_lanes(units - k);
            float *gate = gates + r * 4 * units + k;
            vec x[4], powers[4];
            FOR_GROUP(n, 4) x[n] = load(gate + n * units, there);
            if (found)
                FOR_GROUP(n, 4) x[n] += load(found + n * units + k, there);
            x[2] = -2.0f * x[2];
            FOR_GROUP(n, 4) x[n] = within(-x[n], FAR);
            expm1_of(4, x, powers);
            FOR_GROUP(n, 4) powers[n] = reciprocal(x[n] + 2.0f, 0.0f);
            powers[2] *= x[2];
            FOR_GROUP(n, 4) store(gate + n * units, powers[n], there);
            vec c = powers[1] * load(cells + r * units + k, there) + powers[0] * powers[2];
            vec h = powers[3] * tanh_of(c);
            store(cell + k, c, there);
            store(state + k, h, there);
            store(output + k, h, there);
        }
    }
}

/* From the gradients of the state after the step (rows, units), which are added to those of the outputs, those of the
   gates before their activation (rows, 4 units); of_cells (rows, units) become those of the cells before. */
void lstm_step_gradients(const step *s, const float *gates, const float *cells, const float *of_states, float *of_cells,
                         const float *of_outputs, float *of_gates)
{
    long units = s->units;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long r = 0; r < s->rows; r++) {
        const float *of_output = of_outputs + s->order[r] * s->output_stride;
        for (long k = 0; k < units; k += LANES) {
            lanes there = first_lanes(units - k);
            const float *gate = gates + r * 4 * units + k;
            float *of_gate = of_gates + r * 4 * units + k, *of_cell = of_cells + r * units + k;
            vec a[4];
            FOR_GROUP(n, 4) a[n] = load(gate + n * units, there);
            vec i = a[0], f = a[1], g = a[2], o = a[3], before = load(cells + r * units + k, there);
            vec t = tanh_of(f * before + i * g);
            vec of_h = load(of_states + r * units + k, there) + load(of_output + k, there);
            vec of_c = load(of_cell, there) + of_h * o * (1.0f - t * t);
            store(of_gate, of_c * g * i * (1.0f - i), there);
            store(of_gate + units, of_c * before * f * (1.0f - f), there);
            store(of_gate + 2 * units, of_c * i * (1.0f - g * g), there);
            store(of_gate + 3 * units, of_h * t * o * (1.0f - o), there);
            store(of_cell, of_c * f, there);
        }
    }
}

/* Adds each row (width) to the one of the sums (width each) that `ids` says; a thread has columns of its own. */
void lstm_sums(long rows, long width, const int64_t *ids, const float *from, float *sums, long threads)
{
    enum { STRIP = 16 * LANES };
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long first = 0; first < width; first += STRIP) {
        long end = width - first < STRIP ? width : first + STRIP;
        for (long r = 0; r < rows; r++) {
            float *sum = sums + ids[r] * width;
            for (long k = first; k < end; k += LANES) {
                lanes there = first_lanes(end - k);
                store(sum + k, load(sum + k, there) + load(from + r * width + k, there), there);
            }
        }
    }
}
