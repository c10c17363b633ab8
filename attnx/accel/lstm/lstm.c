/* One step of an LSTM, and the gradients of its pointwise part, in float32:

       i, f, o = sigmoid, g = tanh of the gates;  c = f c_previous + i g;  h = o tanh(c)

   Rows are packed: the longest sequence is the first row of every step. `order[r]` is the row of the batch with the
   outputs and last states of row r. */

#include "vectors.h"

static const float FAR = 40.0f; /* sigmoid and tanh are constant beyond */

/* The sums of ROWS rows and four gates fill the registers. */
enum { ROWS = 6, STRIP = 16 * ROWS, PARTS = 2 };
#define FOR_ROWS(r, count) _Pragma("GCC unroll 6") for (int r = 0; r < (count); r++)

static INLINE vec tanh_vector(vec x)
{
    vec power;
    x = clamp(x + x, FAR);
    expm1_vectors(1, &x, &power);
    return x * reciprocal(x + 2.0f, 0.0f);
}

typedef struct {
    const float *rows;
    long stride, width;
} part;

typedef struct {
    long rows, units, continuing;                          /* the first `continuing` rows have a next step */
    long state_stride, output_stride, gate_stride;         /* from row to row, of the next states, outputs and gates */
    const int64_t *order;
    long threads;
    const float *table;                                    /* (.., 4 units), or null: row ids[r] of it is added */
    const int64_t *ids;
    long adds_gates, keeps_activations;                    /* whether gates are added, and become their activations */
    const float *weights;                                  /* of the parts, as `lstm_pack_weights` packs them */
    part parts[PARTS];                                     /* multiplied with the weights; a width of 0 means none */
} step;

typedef struct {
    float *states, *cells;
} state_pointers;

/* Whether products are faster here than in torch: where vectors have 16 lanes. */
long lstm_has_fast_products(void) { return LANES == 16; }

/* Copy weights (count, width), whose rows are `stride` apart, in the order in which a step multiplies them. A fourth of
   the rows belongs to each gate; for LANES units and each input the weights of the four gates follow each other.
   Missing rows are zeros. */
void lstm_pack_weights(long count, long width, const float *weights, long stride, float *tiles)
{
    long units = (count + 3) / 4;
    for (long u = 0; u < units; u += LANES)
        for (long n = 0; n < 4; n++)
            for (long k = 0; k < width; k += LANES) {
                vec square[LANES];
                _Pragma("GCC unroll 16") for (int lane = 0; lane < LANES; lane++) {
                    long unit = u + lane, row = n * units + unit;
                    int is_weight = unit < units && row < count;
                    square[lane] = is_weight ? load(weights + row * stride + k, first_lanes(width - k)) : broadcast(0);
                }
                transpose(square);
                float *to = tiles + (u * width + k * LANES) * 4 + n * LANES;
                long inputs = width - k < LANES ? width - k : LANES;
                _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++)
                    if (i < inputs) store(to + i * 4 * LANES, square[i], first_lanes(LANES));
            }
}

typedef struct {
    float *gates;
    const float *cells;
    const state_pointers *next, *last;
    float *outputs;
} step_data;

/* The products of `count` rows with the weights of the units u up to u + LANES. */
static INLINE void gemm_tile(int count, const step *s, const long *rows, long u, vec (*products)[4])
{
    vec sums[ROWS][4];
    FOR_ROWS(i, count) FOR_GROUP(n, 4) sums[i][n] = broadcast(0);
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
                vec x = broadcast(from[i][k]);
                FOR_GROUP(n, 4) sums[i][n] += x * w[n];
            }
        }
    }
    FOR_ROWS(i, count) FOR_GROUP(n, 4) products[i][n] = sums[i][n];
}

#define DEFINE_GEMM_TILE(count)                                                                                      \
    static __attribute__((noinline)) void gemm_tile_##count(const step *s, const long *rows, long u,         \
                                                    vec (*products)[4])                                      \
    {                                                                                                        \
        gemm_tile(count, s, rows, u, products);                                                               \
    }
DEFINE_GEMM_TILE(1) DEFINE_GEMM_TILE(2) DEFINE_GEMM_TILE(3) DEFINE_GEMM_TILE(4) DEFINE_GEMM_TILE(5) DEFINE_GEMM_TILE(6)
/* Each count has its own function, so that its sums stay in registers. */
static void (*const GEMM_TILES[])(const step *, const long *, long, vec (*)[4]) = {
    0, gemm_tile_1, gemm_tile_2, gemm_tile_3, gemm_tile_4, gemm_tile_5, gemm_tile_6};

/* The cell of row r and the units u up to u + LANES, from the row's products. */
static INLINE void lstm_cell_tile(const step *s, const step_data *d, long r, long u, const vec *products)
{
    long units = s->units, row = s->order[r];
    lanes in_range = first_lanes(units - u);
    float *gates = d->gates + r * s->gate_stride + u;
    const float *table_row = s->table ? s->table + s->ids[r] * 4 * units + u : 0;
    vec x[4], powers[4];
    FOR_GROUP(n, 4) {
        x[n] = products[n];
        if (s->adds_gates) x[n] += load(gates + n * units, in_range);
        if (table_row) x[n] += load(table_row + n * units, in_range);
        x[n] = clamp(n == 2 ? 2.0f * x[n] : -x[n], FAR);
    }
    expm1_vectors(4, x, powers);
    FOR_GROUP(n, 4) powers[n] = reciprocal(x[n] + 2.0f, 0.0f);
    powers[2] *= x[2];
    vec c = powers[1] * load(d->cells + r * units + u, in_range) + powers[0] * powers[2];
    vec h = powers[3] * tanh_vector(c);
    int continues = r < s->continuing;
    if (s->keeps_activations) FOR_GROUP(n, 4) store(gates + n * units, powers[n], in_range);
    store((continues ? d->next->cells + r * units : d->last->cells + row * units) + u, c, in_range);
    store((continues ? d->next->states + r * s->state_stride : d->last->states + row * units) + u, h, in_range);
    store(d->outputs + row * s->output_stride + u, h, in_range);
}

/* Fetch what `lstm_cell_tile` reads, while products are computed. */
static INLINE void prefetch_row(const step *s, const step_data *d, long r, long u)
{
    __builtin_prefetch(d->cells + r * s->units + u);
    FOR_GROUP(n, 4) {
        if (s->adds_gates) __builtin_prefetch(d->gates + r * s->gate_stride + n * s->units + u);
        if (s->table) __builtin_prefetch(s->table + (s->ids[r] * 4 + n) * s->units + u);
    }
}

/* A step of all rows: gates (rows, 4 units), cells (rows, units). Writes the outputs, and the state to `next`, (rows,
   units), or to `last` where a sequence ends. */
void lstm_step(const step *s, float *gates, const float *cells, const state_pointers *next, const state_pointers *last,
               float *outputs)
{
    const step_data d = {gates, cells, next, last, outputs};
    /* Products reuse the same weights for many rows; without products few rows read neighboring memory. */
    long multiplies = s->parts[0].width, height = multiplies ? STRIP : ROWS;
    long strips = (s->rows + height - 1) / height, groups = (s->units + LANES - 1) / LANES;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long tile = 0; tile < strips * groups; tile++) {
        long u = tile % groups * LANES, first = tile / groups * height;
        long end = s->rows - first < height ? s->rows : first + height;
        for (; first < end; first += ROWS) {
            vec products[ROWS][4] = {0};
            long count = end - first < ROWS ? end - first : ROWS, rows[ROWS];
            for (long i = 0; i < count; i++) {
                rows[i] = first + i;
                if (multiplies) prefetch_row(s, &d, first + i, u);
            }
            if (multiplies) GEMM_TILES[count](s, rows, u, products);
            for (long i = 0; i < count; i++) lstm_cell_tile(s, &d, first + i, u, products[i]);
        }
    }
}

/* Write the products of all rows, (rows, count), plus a bias (count), or null for none. */
void lstm_linear(const step *s, long count, const float *bias_row, float *out)
{
    long strips = (s->rows + STRIP - 1) / STRIP, groups = (s->units + LANES - 1) / LANES;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long tile = 0; tile < strips * groups; tile++) {
        long u = tile % groups * LANES, first = tile / groups * STRIP;
        long end = s->rows - first < STRIP ? s->rows : first + STRIP;
        lanes in_range[4];
        vec bias[4];
        FOR_GROUP(n, 4) {
            long units = s->units - u, columns = count - n * s->units - u;
            columns = columns < 0 ? 0 : columns;
            in_range[n] = first_lanes(units < columns ? units : columns);
            bias[n] = bias_row ? load(bias_row + n * s->units + u, in_range[n]) : broadcast(0);
        }
        for (; first < end; first += ROWS) {
            vec products[ROWS][4];
            long tile_rows = end - first < ROWS ? end - first : ROWS, rows[ROWS];
            for (long i = 0; i < tile_rows; i++) rows[i] = first + i;
            GEMM_TILES[tile_rows](s, rows, u, products);
            for (long i = 0; i < tile_rows; i++)
                FOR_GROUP(n, 4) {
                    float *to = out + rows[i] * s->gate_stride + n * s->units + u;
                    store(to, products[i][n] + bias[n], in_range[n]);
                }
        }
    }
}

/* Write the gradients of the gates before their activation (rows, 4 units), from those of the next state (rows, units)
   plus those of the outputs. grad_c (rows, units) become the gradients of the previous cells. */
void lstm_step_gradients(const step *s, const float *gates, const float *cells, const float *grad_h, float *grad_c,
                         const float *grad_outputs, float *grad_gates)
{
    long units = s->units;
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
    for (long r = 0; r < s->rows; r++) {
        const float *grad_output = grad_outputs + s->order[r] * s->output_stride;
        for (long k = 0; k < units; k += LANES) {
            lanes in_range = first_lanes(units - k);
            const float *gate = gates + r * 4 * units + k;
            float *grad_gate = grad_gates + r * 4 * units + k, *grad_cell = grad_c + r * units + k;
            vec a[4];
            FOR_GROUP(n, 4) a[n] = load(gate + n * units, in_range);
            vec i = a[0], f = a[1], g = a[2], o = a[3], previous_c = load(cells + r * units + k, in_range);
            vec t = tanh_vector(f * previous_c + i * g);
            vec grad_h_total = load(grad_h + r * units + k, in_range) + load(grad_output + k, in_range);
            vec grad_c_total = load(grad_cell, in_range) + grad_h_total * o * (1.0f - t * t);
            store(grad_gate, grad_c_total * g * i * (1.0f - i), in_range);
            store(grad_gate + units, grad_c_total * previous_c * f * (1.0f - f), in_range);
            store(grad_gate + 2 * units, grad_c_total * i * (1.0f - g * g), in_range);
            store(grad_gate + 3 * units, grad_h_total * t * o * (1.0f - o), in_range);
            store(grad_cell, grad_c_total * f, in_range);
        }
    }
}

/* Add row r (width) to sum ids[r] (width); each thread has its own columns. */
void lstm_segment_sum(long rows, long width, const int64_t *ids, const float *from, float *sums, long threads)
{
    enum { COLUMNS = 16 * LANES };
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long first = 0; first < width; first += COLUMNS) {
        long end = width - first < COLUMNS ? width : first + COLUMNS;
        for (long r = 0; r < rows; r++) {
            float *sum = sums + ids[r] * width;
            for (long k = first; k < end; k += LANES) {
                lanes in_range = first_lanes(end - k);
                store(sum + k, load(sum + k, in_range) + load(from + r * width + k, in_range), in_range);
            }
        }
    }
}
