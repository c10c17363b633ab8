/* Attention weights and contexts in float32, for few queries:

       weight(b, q, m) = exp(score(b, q, m) - the largest) / the sum of these, over the positions m that are allowed;
       sum(b, q) = sum over m of weight(b, q, m) value(b, m). */

#include "vectors.h"

#include <math.h>

static const float FAR = 87.0f; /* e^-FAR is 0 next to 1 in float32 */

/* ---- weights ---- */

typedef struct {
    long rows, queries, positions;
    long allowed_strides[3]; /* of rows, queries and positions */
} score_shape;

static INLINE float max_lane(vec x)
{
    float highest = x[0];
    for (int i = 1; i < LANES; i++) highest = x[i] > highest ? x[i] : highest;
    return highest;
}

static INLINE float sum_lanes(vec x)
{
    __m128 sums = horizontal_sums(x, broadcast(0), broadcast(0), broadcast(0));
    return sums[0];
}

/* The weights of one query. Masked scores are -inf until their weights are 0; a NaN makes every allowed weight NaN. */
static INLINE void softmax_row(const float *scores, const uint8_t *allowed, long stride, long positions, float *weights)
{
    vec highest = broadcast(-INFINITY), sum = broadcast(0);
    int has_allowed = 0;
    for (long m = 0; m < positions; m++) {
        weights[m] = allowed[m * stride] ? scores[m] : -INFINITY;
        has_allowed |= allowed[m * stride];
    }
    if (!has_allowed) {
        memset(weights, 0, positions * sizeof *weights);
        return;
    }
    for (long m = 0; m < positions; m += LANES) {
        vec x = load(weights + m, first_lanes(positions - m));
        ivec larger = (x > highest) & (lane_indices() < (int)(positions - m));
        highest = (vec)(((ivec)x & larger) | ((ivec)highest & ~larger));
    }
    highest = broadcast(max_lane(highest));
    for (long m = 0; m < positions; m += LANES) {
        lanes mask = first_lanes(positions - m);
        vec x = load(weights + m, mask) - highest, power;
        ivec is_counted = ~(x < -FAR) & (lane_indices() < (int)(positions - m));
        x = clamp(x, FAR);
        expm1_vectors(1, &x, &power);
        power = (vec)((ivec)power & is_counted);
        sum += power;
        store(weights + m, power, mask);
    }
    float scale = 1.0f / sum_lanes(sum);
    for (long m = 0; m < positions; m++) weights[m] = allowed[m * stride] ? weights[m] * scale : 0.0f;
}

void masked_softmax(const score_shape *f, const float *scores, const uint8_t *allowed, float *weights, long threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < f->rows * f->queries; row++) {
        long b = row / f->queries, q = row % f->queries;
        const uint8_t *allowed_row = allowed + b * f->allowed_strides[0] + q * f->allowed_strides[1];
        long first = row * f->positions;
        softmax_row(scores + first, allowed_row, f->allowed_strides[2], f->positions, weights + first);
    }
}

/* ---- contexts: many small products, one for each row of the batch. Reading the values takes most of the time, so they
   are read once and in their order, a few positions at a time. ---- */

enum { STREAMS = 8 }; /* positions at a time */
#define FOR_STREAMS(i, count) _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)

typedef struct {
    long rows, queries, positions, width;
    long batch_stride, row_stride; /* of the values */
} shape;

/* Add `count` positions from m on to the sums of a row's queries; position 0 starts the sums. */
static INLINE void add_positions(int count, long m, const shape *s, const float *weights, const float *values,
                                 float *sums)
{
    for (long v = 0; v < s->width; v += LANES) {
        lanes mask = first_lanes(s->width - v);
        vec value[STREAMS];
        FOR_STREAMS(i, count) value[i] = load(values + (m + i) * s->row_stride + v, mask);
        for (long q = 0; q < s->queries; q++) {
            float *to = sums + q * s->width + v;
            vec sum = m ? load(to, mask) : broadcast(0);
            FOR_STREAMS(i, count) sum += broadcast(weights[q * s->positions + m + i]) * value[i];
            store(to, sum, mask);
        }
    }
}

void weighted_sums(const shape *s, const float *weights, const float *values, float *sums, long threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long b = 0; b < s->rows; b++) {
        const float *from = weights + b * s->queries * s->positions, *row_values = values + b * s->batch_stride;
        float *to = sums + b * s->queries * s->width;
        for (long m = 0; m < s->positions; m += STREAMS)
            switch (s->positions - m) {
            case 1: add_positions(1, m, s, from, row_values, to); break;
            case 2: add_positions(2, m, s, from, row_values, to); break;
            case 3: add_positions(3, m, s, from, row_values, to); break;
            case 4: add_positions(4, m, s, from, row_values, to); break;
            case 5: add_positions(5, m, s, from, row_values, to); break;
            case 6: add_positions(6, m, s, from, row_values, to); break;
            case 7: add_positions(7, m, s, from, row_values, to); break;
            default: add_positions(STREAMS, m, s, from, row_values, to);
            }
    }
}
