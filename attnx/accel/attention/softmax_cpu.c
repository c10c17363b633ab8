/* From scores to contexts, in float32, for reads of few queries:

       weight(b, q, m) = exp(score(b, q, m) - the largest) / the sum of these, over the positions m that are allowed;
       sum(b, q) = sum over m of weight(b, q, m) value(b, m). */

#include "vectors.h"

#include <math.h>

static const float FAR = 87.0f; /* e^-FAR is as good as nothing beside 1 */

/* ---- weights ---- */

typedef struct {
    long rows, queries, positions;
    long allowed_strides[3]; /* of rows, queries and positions */
} field;

static INLINE float largest(vec x)
{
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static INLINE float total(vec x)
{
    __m128 sums = sums_of(x, broadcast(0), broadcast(0), broadcast(0));
    return sums[0];
}

/* Of one query. What is not allowed is -inf until its weight is 0; NaN stays NaN, in all that is allowed. */
static INLINE void softmax_row(const float *scores, const uint8_t *allowed, long stride, long positions, float *weights)
{
    vec most = broadcast(-INFINITY), sum = broadcast(0);
    int some = 0;
    for (long m = 0; m < positions; m++) {
        weights[m] = allowed[m * stride] ? scores[m] : -INFINITY;
        some |= allowed[m * stride];
    }
    if (!some) {
        memset(weights, 0, positions * sizeof *weights);
        return;
    }
    for (long m = 0; m < positions; m += LANES) {
        vec x = load(weights + m, first_lanes(positions - m));
        ivec larger = (x > most) & (numbered() < (int)(positions - m));
        most = (vec)(((ivec)x & larger) | ((ivec)most & ~larger));
    }
    most = broadcast(largest(most));
    for (long m = 0; m < positions; m += LANES) {
        lanes there = first_lanes(positions - m);
        vec x = load(weights + m, there) - most, power;
        ivec counts = ~(x < -FAR) & (numbered() < (int)(positions - m));
        x = within(x, FAR);
        expm1_of(1, &x, &power);
        power = (vec)((ivec)power & counts);
        sum += power;
        store(weights + m, power, there);
    }
    float scale = 1.0f / total(sum);
    for (long m = 0; m < positions; m++) weights[m] = allowed[m * stride] ? weights[m] * scale : 0.0f;
}

void masked_softmax(const field *f, const float *scores, const uint8_t *allowed, float *weights, long threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long row = 0; row < f->rows * f->queries; row++) {
        long b = row / f->queries, q = row % f->queries;
        const uint8_t *mine = allowed + b * f->allowed_strides[0] + q * f->allowed_strides[1];
        softmax_row(scores + row * f->positions, mine, f->allowed_strides[2], f->positions, weights + row * f->positions);
    }
}

/* ---- contexts: many small products, one of each row of the batch. What takes time is to fetch the values, so nothing is
   rearranged; they are read once, as they lie, a few positions side by side. ---- */

enum { STREAMS = 8 }; /* positions at a time */
#define FOR_STREAMS(i, count) _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)

typedef struct {
    long rows, queries, positions, width;
    long batch_stride, row_stride; /* of the values */
} shape;

/* Add to the sums of a row's queries `count` positions from m on; with the first ones they begin. */
static INLINE void add(int count, long m, const shape *s, const float *weights, const float *values, float *sums)
{
    for (long v = 0; v < s->width; v += LANES) {
        lanes there = first_lanes(s->width - v);
        vec value[STREAMS];
        FOR_STREAMS(i, count) value[i] = load(values + (m + i) * s->row_stride + v, there);
        for (long q = 0; q < s->queries; q++) {
            float *to = sums + q * s->width + v;
            vec sum = m ? load(to, there) : broadcast(0);
            FOR_STREAMS(i, count) sum += broadcast(weights[q * s->positions + m + i]) * value[i];
            store(to, sum, there);
        }
    }
}

void weighted_sums(const shape *s, const float *weights, const float *values, float *sums, long threads)
{
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (long b = 0; b < s->rows; b++) {
        const float *from = weights + b * s->queries * s->positions, *of_row = values + b * s->batch_stride;
        float *to = sums + b * s->queries * s->width;
        for (long m = 0; m < s->positions; m += STREAMS)
            switch (s->positions - m) {
            case 1: add(1, m, s, from, of_row, to); break;
            case 2: add(2, m, s, from, of_row, to); break;
            case 3: add(3, m, s, from, of_row, to); break;
            case 4: add(4, m, s, from, of_row, to); break;
            case 5: add(5, m, s, from, of_row, to); break;
            case 6: add(6, m, s, from, of_row, to); break;
            case 7: add(7, m, s, from, of_row, to); break;
            default: add(STREAMS, m, s, from, of_row, to);
            }
    }
}
