/* One step of an LSTM, and the gradients of what is pointwise in it, in float32:

       i, f, o = sigmoid, g = tanh of the gates;  c = f c_before + i g;  h = o tanh(c)

   Rows are packed: the longest sequence is the first row of every step. `order[r]` is where row r lies in the batch; what
   it is to be found at by others, the outputs and the last states, lies there. */

#include "vectors.h"

static const float FAR = 40.0f; /* sigmoid and tanh no longer change from there on */

/* The sums of so many rows and four gates, with what is added to them next, are all the registers that there are. */
enum { ROWS = 6, STRIP = 16 * ROWS, PARTS = 2 };
#define FOR_ROWS(r, count) _Pragma("GCC unroll 6") for (int r = 0; r < (count); r++)

static INLINE vec tanh_of(vec x)
{
    vec power;
    x = within(x + x, FAR);
    expm1_of(1, &x, &power);
    return x * reciprocal(x + 2.0f, 0.0f);
}

typedef struct {
    const float *rows;
    long stride, width;
} part;

typedef struct {
    long rows, units, going_on;                            /* the first `going_on` rows have a next step */
    long state_stride, output_stride, gate_stride;         /* from row to row, of the next states, outputs and gates */
    const int64_t *order;
    long threads;
    const float *table;                                    /* (.., 4 units), or null: row ids[r] of it is added */
    const int64_t *ids;
    const int64_t *parents;                                /* or null: rows with the one of the row before are alike */
    long added, kept;                                      /* are gates added; are they to become their activations */
    const float *weights;                                  /* of the parts, as `lstm_lay_out` has them */
    part parts[PARTS];                                     /* what they are multiplied with; of no width, nothing */
} step;

typedef struct {
    float *states, *cells;
} place;

/* Whether products here are faster than a library's: where there are registers enough. */
long lstm_multiplies(void) { return LANES == 16; }

/* Weights (count, width), their rows so far apart, in the order in which a step multiplies them: a fourth of the rows is
   of each gate, and for each LANES units and each input stand those of the four gates. Rows that lack are zeros. */
void lstm_lay_out(long count, long width, const float *weights, long stride, float *laid_out)
{
    long units = (count + 3) / 4;
    for (long u = 0; u < units; u += LANES)
        for (long n = 0; n < 4; n++)
            for (long k = 0; k < width; k += LANES) {
                vec square[LANES];
                _Pragma("GCC unroll 16") for (int lane = 0; lane < LANES; lane++) {
                    long unit = u + lane, row = n * units + unit;
                    int found = unit < units && row < count;
                    square[lane] = found ? load(weights + row * stride + k, first_lanes(width - k)) : all(0);
                }
                transpose(square);
                float *to = laid_out + (u * width + k * LANES) * 4 + n * LANES;
                long inputs = width - k < LANES ? width - k : LANES;
                _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
                    if (i < inputs) store(to + i * 4 * LANES, square[i], first_lanes(LANES));
            }
}

typedef struct {
    float *gates;
    const float *cells;
    const place *next, *last;
    float *outputs;
} data;

/* What the weights make of `count` of the rows, for the units u up to u + LANES. */
static INLINE void multiply(int count, const step *s, const long *rows, long u, vec (*products)[4])
{
    vec sums[ROWS][4];
    FOR_ROWS(i, count) FOR_GROUP(n, 4) sums[i][n] = all(0);
    long width = 0;
    for (int p = 0; p < PARTS; p++) width += s->parts[p].width;
    const float *weights = s->weights + u * 4 * width;
    for (const part *p = s->parts; p < s->parts + PARTS; p++) {
        const float *from[ROWS];
        FOR_ROWS(i, count) from[i] = p->rows + rows[i] * p->stride;
        long end = p->width;
        for (long k = 0; k < end; k++, weights += 4 * LANES) {
            vec w[4];
            FOR_GROUP(n, 4) w[n] = load(weights + n * LANES, first_lanes(LANES));
            FOR_ROWS(i, count) {
                vec x = all(from[i][k]);
                FOR_GROUP(n, 4) sums[i][n] += x * w[n];
            }
        }
    }
    FOR_ROWS(i, count) FOR_GROUP(n, 4) products[i][n] = sums[i][n];
}

#define MULTIPLY(count)                                                                                      \
    static __attribute__((noinline)) void multiply_##count(const step *s, const long *rows, long u,         \
                                                           vec (*products)[4])                               \
    {                                                                                                        \
        multiply(count, s, rows, u, products);                                                               \
    }
MULTIPLY(1) MULTIPLY(2) MULTIPLY(3) MULTIPLY(4) MULTIPLY(5) MULTIPLY(6)
/* Each a function of its own, so that its sums stay in registers. */
static void (*const MULTIPLIED[])(const step *, const long *, long, vec (*)[4]) = {
    0, multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6};

/* Of row r the units u up to u + LANES, from what the weights made of it. */
static INLINE void activate(const step *s, const data *d, long r, long u, const vec *products)
{
    long units = s->units, row = s->order[r];
    lanes there = first_lanes(units - u);
    float *gates = d->gates + r * s->gate_stride + u;
    const float *found = s->table ? s->table + s->ids[r] * 4 * units + u : 0;
    vec x[4], powers[4];
    FOR_GROUP(n, 4) {
        x[n] = products[n];
        if (s->added) x[n] += load(gates + n * units, there);
        if (found) x[n] += load(found + n * units, there);
        x[n] = within(n == 2 ? 2.0f * x[n] : -x[n], FAR);
    }
    expm1_of(4, x, powers);
    FOR_GROUP(n, 4) powers[n] = reciprocal(x[n] + 2.0f, 0.0f);
    powers[2] *= x[2];
    vec c = powers[1] * load(d->cells + r * units + u, there) + powers[0] * powers[2];
    vec h = powers[3] * tanh_of(c);
    int on = r < s->going_on;
    if (s->kept) FOR_GROUP(n, 4) store(gates + n * units, powers[n], there);
    store((on ? d->next->cells + r * units : d->last->cells + row * units) + u, c, there);
    store((on ? d->next->states + r * s->state_stride : d->last->states + row * units) + u, h, there);
    store(d->outputs + row * s->output_stride + u, h, there);
}

/* What `activate` will look for is fetched while products are computed. */
static INLINE void fetch(const step *s, const data *d, long r, long u)
{
    __builtin_prefetch(d->cells + r * s->units + u);
    FOR_GROUP(n, 4) {
        if (s->added) __builtin_prefetch(d->gates + r * s->gate_stride + n * s->units + u);
        if (s->table) __builtin_prefetch(s->table + (s->ids[r] * 4 + n) * s->units + u);
    }
}

/* Whether what the weights make of a row is what they make of the one before, which is not before `first`. */
static INLINE int is_like_before(const step *s, long first, long r)
{
    return s->parents && r > first && s->parents[r] == s->parents[r - 1];
}

/* A step of all rows: gates (rows, 4 units), cells (rows, units). The state is written to `next`, (rows, units), or where
   a sequence ends to `last`; and the output. */
void lstm_step(const step *s, float *gates, const float *cells, const place *next, const place *last, float *outputs)
{
    const data d = {gates, cells, next, last, outputs};
    /* What is multiplied wants the same weights again and again, and all else what lies side by side. */
    long multiplies = s->parts[0].width, height = multiplies ? STRIP : ROWS;
    long strips = (s->rows + height - 1) / height, groups = (s->units + LANES - 1) / LANES;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long tile = 0; tile < strips * groups; tile++) {
        long u = tile % groups * LANES, first = tile / groups * height;
        long end = s->rows - first < height ? s->rows : first + height;
        while (first < end) {
            vec products[ROWS][4] = {0};
            long rows[ROWS], count = 0, r = first;
            for (; r < end; r++) {
                if (!is_like_before(s, first, r)) {
                    if (count == ROWS) break;
                    rows[count++] = r;
                }
                if (multiplies) fetch(s, &d, r, u);
            }
            if (multiplies) MULTIPLIED[count](s, rows, u, products);
            long to = r, product = -1;
            for (r = first; r < to; r++) {
                product += !is_like_before(s, first, r);
                activate(s, &d, r, u, products[product]);
            }
            first = to;
        }
    }
}

/* What the weights make of all rows, (rows, count), and what is `added` to each, (count) or null. */
void lstm_multiply(const step *s, long count, const float *added, float *out)
{
    long strips = (s->rows + STRIP - 1) / STRIP, groups = (s->units + LANES - 1) / LANES;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long tile = 0; tile < strips * groups; tile++) {
        long u = tile % groups * LANES, first = tile / groups * STRIP;
        long end = s->rows - first < STRIP ? s->rows : first + STRIP;
        lanes there[4];
        vec more[4];
        FOR_GROUP(n, 4) {
            long units = s->units - u, columns = count - n * s->units - u;
            columns = columns < 0 ? 0 : columns;
            there[n] = first_lanes(units < columns ? units : columns);
            more[n] = added ? load(added + n * s->units + u, there[n]) : all(0);
        }
        for (; first < end; first += ROWS) {
            vec products[ROWS][4];
            long several = end - first < ROWS ? end - first : ROWS, rows[ROWS];
            for (long i = 0; i < several; i++) rows[i] = first + i;
            MULTIPLIED[several](s, rows, u, products);
            for (long i = 0; i < several; i++)
                FOR_GROUP(n, 4) {
                    float *to = out + rows[i] * s->gate_stride + n * s->units + u;
                    store(to, products[i][n] + more[n], there[n]);
                }
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
    enum { COLUMNS = 16 * LANES };
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long first = 0; first < width; first += COLUMNS) {
        long end = width - first < COLUMNS ? width : first + COLUMNS;
        for (long r = 0; r < rows; r++) {
            float *sum = sums + ids[r] * width;
            for (long k = first; k < end; k += LANES) {
                lanes there = first_lanes(end - k);
                store(sum + k, load(sum + k, there) + load(from + r * width + k, there), there);
            }
        }
    }
}
