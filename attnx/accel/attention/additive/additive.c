/* Scores of additive attention and their gradients, in float32:

       score(q, m) = sum over d of v[d] tanh(a[q, d] + b[m, d])

   No (q, m, d) array exists: the terms of a pair are summed as they are computed, and computed again for gradients.
   tanh(a + b) = 1 - 2r with r = 1 / (1 + e^(2a) e^(2b)). The exponentials are computed once for each query and each
   position, so that a term costs a multiplication, a reciprocal and an addition. This holds while no exponential
   overflows, with an error of about 1e-7. A block of queries with larger numbers, with numbers so small that 1e-7
   matters, or with inf or NaN computes tanh of each sum instead ("exact"), as does a call with few queries.

   Results do not depend on the number of threads: one thread sums each number, in a fixed order. */

#include "vectors.h"

/* GROUP queries and GROUP positions share loaded vectors. */
enum {
    FEW = 4,             /* with fewer queries the exponentials are not precomputed */
    BLOCK = 16,          /* queries that use the exponentials, or not, together */
    STRETCH = 64,        /* positions whose gradients stay in the nearest cache */
    WORKSPACE = 1 << 18, /* floats of exponentials at a time, or those of one row of the batch */
};

static const float SMALLEST = 0.25f, LARGEST = 40.0f; /* bounds of max |a| + max |b| for the exponentials */

typedef struct { /* one operand, (batch, rows, d) */
    const float *data;
    long rows, batch_stride, row_stride;
    float *powers;  /* e^(2x), in whole vectors */
    int32_t *peaks; /* the bits of each row's largest |x| */
} operand;

typedef struct {
    long batch, d, chunks, blocks; /* chunks of LANES numbers, blocks of BLOCK queries */
    int threads;
    const float *v;
    operand q, k;
    int32_t *exact; /* (batch, blocks): whether to compute tanh of each sum; null: all do */
} task;

/* ---- terms: u = -tanh / 2, and w = (1 - tanh^2) / 4; unless exact, a and b are powers ---- */

static INLINE void terms(int exact, int count, const vec *a, const vec *b, vec *u, vec *w)
{
    vec power[GROUP];
    if (!exact) {
        FOR_GROUP(i, count) {
            u[i] = reciprocal(a[i] * b[i] + 1.0f, 0.5f);
            w[i] = 0.25f - u[i] * u[i];
        }
        return;
    }
    FOR_GROUP(i, count) {
        vec sum = clamp(a[i] + b[i], 40.0f); /* beyond 40 tanh is 1 */
        u[i] = sum + sum;
    }
    expm1_vectors(count, u, power);
    FOR_GROUP(i, count) {
        vec r = reciprocal(u[i] + 2.0f, 0.0f);
        w[i] = power[i] * r * r;
        u[i] *= r * -0.5f;
    }
}

/* ---- exponentials, and which blocks use them ---- */

/* The powers of a row, whose vectors are written `step` apart, and its peak. */
static void exp2x_row(const operand *x, const task *t, long batch, long row, float *to, long step)
{
    const float *from = x->data + batch * x->batch_stride + row * x->row_stride;
    ivec peak = {0};
    for (long c = 0; c < t->chunks; c++) {
        vec x_c = load(from + c * LANES, first_lanes(t->d - c * LANES)), power;
        /* The bits of positive numbers are ordered as the numbers; those of NaN are the largest. */
        ivec size = (ivec)x_c & 0x7fffffff, larger = size > peak;
        peak = (size & larger) | (peak & ~larger);
        x_c += x_c;
        expm1_vectors(1, &x_c, &power);
        store(to + c * step, power, first_lanes(LANES));
    }
    int32_t highest = 0;
    for (int i = 0; i < LANES; i++)
        highest = peak[i] > highest ? peak[i] : highest;
    x->peaks[batch * x->rows + row] = highest;
}

static float highest_peak(const int32_t *peaks, long count)
{
    int32_t highest = 0;
    float x;
    for (long i = 0; i < count; i++)
        highest = peaks[i] > highest ? peaks[i] : highest;
    memcpy(&x, &highest, sizeof x);
    return x;
}

/* All powers, row after row (scores) or `by_chunk`, one vector of every row before the next; and which are exact. */
static void prepare(const task *t, int by_chunk)
{
    long rows = t->q.rows + t->k.rows, width = t->chunks * LANES;
#pragma omp parallel for num_threads(t->threads) if (t->threads > 1)
    for (long i = 0; i < t->batch * rows; i++) {
        long batch = i / rows, row = i % rows;
        const operand *x = row < t->q.rows ? &t->q : &t->k;
        row -= row < t->q.rows ? 0 : t->q.rows;
        float *to = x->powers + batch * x->rows * width;
        if (by_chunk)
            exp2x_row(x, t, batch, row, to + row * LANES, x->rows * LANES);
        else
            exp2x_row(x, t, batch, row, to + row * width, LANES);
    }
    for (long batch = 0; batch < t->batch; batch++) {
        const int32_t *q = t->q.peaks + batch * t->q.rows, *k = t->k.peaks + batch * t->k.rows;
        float key_peak = highest_peak(k, t->k.rows);
        for (long block = 0; block < t->blocks; block++) {
            long first = block * BLOCK, remaining = t->q.rows - first;
            float highest = key_peak + highest_peak(q + first, remaining < BLOCK ? remaining : BLOCK);
            t->exact[batch * t->blocks + block] = !(highest >= SMALLEST && highest <= LARGEST);
        }
    }
}

static int is_exact(const task *t, long batch, long query)
{
    return !t->exact || t->exact[batch * t->blocks + query / BLOCK];
}

/* ---- scores ---- */

static const float *row_pointer(const operand *x, const task *t, int exact, long batch, long row)
{
    return exact ? x->data + batch * x->batch_stride + row * x->row_stride
                 : x->powers + (batch * x->rows + row) * t->chunks * LANES;
}

/* `count` queries from `first` on with `span` positions from m on. */
static INLINE void score_positions(const task *t, int exact, int count, int span, long batch, long first, long m,
                                   float *scores)
{
    const float *q[GROUP], *k[GROUP];
    vec sums[GROUP][GROUP] = {{{0}}};
    FOR_GROUP(i, count) q[i] = row_pointer(&t->q, t, exact, batch, first + i);
    FOR_GROUP(j, span) k[j] = row_pointer(&t->k, t, exact, batch, m + j);
    for (long c = 0; c < t->chunks; c++) {
        long offset = c * LANES;
        lanes mask = first_lanes(t->d - offset), powers_mask = exact ? mask : first_lanes(LANES);
        vec v = load(t->v + offset, mask), b[GROUP];
        FOR_GROUP(j, span) b[j] = load(k[j] + offset, powers_mask);
        FOR_GROUP(i, count) {
            vec query = load(q[i] + offset, powers_mask), a[GROUP] = {query, query, query, query};
            vec u[GROUP], unused[GROUP];
            terms(exact, span, a, b, u, unused);
            FOR_GROUP(j, span) sums[i][j] += v * u[j];
        }
    }
    FOR_GROUP(i, count) {
        float four[GROUP];
        _mm_storeu_ps(four, -2.0f * horizontal_sums(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
        memcpy(scores + (batch * t->q.rows + first + i) * t->k.rows + m, four, sizeof(float) * span);
    }
}

/* `count` queries from `first` on with every position. */
static INLINE void score_queries(const task *t, int exact, int count, long batch, long first, float *scores)
{
    long m = 0;
    for (; m + GROUP <= t->k.rows; m += GROUP) score_positions(t, exact, count, GROUP, batch, first, m, scores);
    switch (t->k.rows - m) {
    case 1: score_positions(t, exact, count, 1, batch, first, m, scores); break;
    case 2: score_positions(t, exact, count, 2, batch, first, m, scores); break;
    case 3: score_positions(t, exact, count, 3, batch, first, m, scores);
    }
}

static INLINE void score_block(const task *t, int exact, long batch, long first, float *scores)
{
    long last = first + BLOCK < t->q.rows ? first + BLOCK : t->q.rows;
    for (; first + GROUP <= last; first += GROUP)
        score_queries(t, exact, GROUP, batch, first, scores);
    for (; first < last; first++)
        score_queries(t, exact, 1, batch, first, scores);
}

/* ---- gradients, of one chunk of d at a time ---- */

typedef struct {
    const float *data;
    long step; /* from row to row */
    lanes mask;
} column;

static column make_column(const operand *x, const task *t, int exact, long batch, long c, long row)
{
    if (exact)
        return (column){row_pointer(x, t, 1, batch, row) + c * LANES, x->row_stride, first_lanes(t->d - c * LANES)};
    return (column){x->powers + ((batch * t->chunks + c) * x->rows + row) * LANES, LANES, first_lanes(LANES)};
}

/* Add the gradients of `count` queries and `span` positions (one of them is 1), without the factor v. */
static INLINE void add_gradients(int exact, int count, int span, const vec *queries, column k,
                                 const float *grad_scores, long score_step, vec *dq, vec *dk, vec *dv)
{
    vec a[GROUP], b[GROUP], u[GROUP], w[GROUP];
    FOR_GROUP(i, count * span) {
        a[i] = queries[i / span];
        b[i] = load(k.data + (i % span) * k.step, k.mask);
    }
    terms(exact, count * span, a, b, u, w);
    FOR_GROUP(i, count * span) {
        vec grad_score = broadcast(grad_scores[i / span * score_step + i % span]);
        dv[i] += grad_score * u[i];
        dq[i / span] += grad_score * w[i];
        dk[i % span] += grad_score * w[i];
    }
}

/* The same for `count` queries, 1 or GROUP, and a stretch of positions; dq is written, dk and dv are added to. */
static INLINE void query_gradients(int exact, int count, column q, column k, long positions,
                                        const float *grad_scores, long score_step, vec *dq, vec *dk, vec *dv)
{
    vec a[GROUP], grad_q[GROUP] = {{0}}, grad_v[GROUP] = {{0}};
    int span = GROUP / count;
    long m = 0;
    FOR_GROUP(i, count) a[i] = load(q.data + i * q.step, q.mask);
    for (; m + span <= positions; m += span, k.data += span * k.step)
        add_gradients(exact, count, span, a, k, grad_scores + m, score_step, grad_q, dk + m, grad_v);
    for (; m < positions; m++, k.data += k.step)
        add_gradients(exact, count, 1, a, k, grad_scores + m, score_step, grad_q, dk + m, grad_v);
    FOR_GROUP(i, count) dq[i] = grad_q[i];
    FOR_GROUP(i, GROUP) *dv += grad_v[i];
}

typedef struct {
    const float *scores; /* input */
    float *q, *k, *v;    /* outputs; v: (batch, d) */
} gradients;

static void chunk_gradients(const task *t, const gradients *grads, long batch, long c)
{
    long queries = t->q.rows, positions = t->k.rows, offset = c * LANES;
    lanes mask = first_lanes(t->d - offset);
    vec v = 4.0f * load(t->v + offset, mask), dv = {0};
    for (long m = 0; m < positions; m += STRETCH) {
        long stretch = positions - m < STRETCH ? positions - m : STRETCH;
        vec dk[STRETCH], grad_v_stretch = {0};
        for (long j = 0; j < stretch; j++)
            dk[j] = (vec){0};
        for (long first = 0, count; first < queries; first += count) {
            int exact = is_exact(t, batch, first);
            column q = make_column(&t->q, t, exact, batch, c, first), k = make_column(&t->k, t, exact, batch, c, m);
            const float *grad_scores = grads->scores + (batch * queries + first) * positions + m;
            vec dq[GROUP];
            count = queries - first < GROUP ? 1 : GROUP;
            if (count == GROUP && exact)
                query_gradients(1, GROUP, q, k, stretch, grad_scores, positions, dq, dk, &grad_v_stretch);
            else if (count == GROUP)
                query_gradients(0, GROUP, q, k, stretch, grad_scores, positions, dq, dk, &grad_v_stretch);
            else if (exact)
                query_gradients(1, 1, q, k, stretch, grad_scores, positions, dq, dk, &grad_v_stretch);
            else
                query_gradients(0, 1, q, k, stretch, grad_scores, positions, dq, dk, &grad_v_stretch);
            for (long i = 0; i < count; i++) {
                float *row = grads->q + (batch * queries + first + i) * t->d + offset;
                store(row, m ? v * dq[i] + load(row, mask) : v * dq[i], mask);
            }
        }
        for (long j = 0; j < stretch; j++)
            store(grads->k + (batch * positions + m + j) * t->d + offset, v * dk[j], mask);
        dv += grad_v_stretch;
    }
    store(grads->v + batch * t->d + offset, -2.0f * dv, mask);
}

/* ---- functions for Python ---- */

typedef struct {
    long batch, queries, positions, d;
    long q_batch, q_row, k_batch, k_row; /* strides of q and of k, in floats */
} shape;

static long chunk_count(const shape *s) { return (s->d + LANES - 1) / LANES; }
static long block_count(const shape *s) { return (s->queries + BLOCK - 1) / BLOCK; }

/* Floats of scratch space for the powers of one row of the batch, and how many rows are computed at a time. */
static long row_scratch(const shape *s)
{
    return (s->queries + s->positions) * (chunk_count(s) * LANES + 1) + block_count(s);
}

static long rows_per_chunk(const shape *s)
{
    long rows = s->queries < FEW ? s->batch : WORKSPACE / row_scratch(s);
    return rows < 1 ? 1 : rows < s->batch ? rows : s->batch;
}

/* Floats of scratch space that the functions below need; gradients need batch * d more, for those of v. */
long additive_scratch(const shape *s) { return s->queries < FEW ? 0 : rows_per_chunk(s) * row_scratch(s); }

/* The task for `batch` rows of the batch from `first` on. */
static task make_task(const shape *s, const float *q, const float *k, const float *v, float *scratch, int threads,
                    long first)
{
    long batch = rows_per_chunk(s) < s->batch - first ? rows_per_chunk(s) : s->batch - first;
    long width = chunk_count(s) * LANES;
    task t = {.batch = batch, .d = s->d, .chunks = chunk_count(s), .blocks = block_count(s), .threads = threads, .v = v,
              .q = {.data = q + first * s->q_batch, .rows = s->queries, .batch_stride = s->q_batch,
                    .row_stride = s->q_row},
              .k = {.data = k + first * s->k_batch, .rows = s->positions, .batch_stride = s->k_batch,
                    .row_stride = s->k_row}};
    if (s->queries < FEW)
        return t;
    t.q.powers = scratch;
    t.k.powers = t.q.powers + batch * s->queries * width;
    t.q.peaks = (int32_t *)(t.k.powers + batch * s->positions * width);
    t.k.peaks = t.q.peaks + batch * s->queries;
    t.exact = t.k.peaks + batch * s->positions;
    return t;
}

/* Write the scores (batch, queries, positions). */
void additive_scores(const shape *s, const float *q, const float *k, const float *v, float *scores,
                     float *scratch, int threads)
{
    for (long first = 0; first < s->batch; first += rows_per_chunk(s)) {
        task t = make_task(s, q, k, v, scratch, threads, first);
        float *to = scores + first * s->queries * s->positions;
        if (t.exact)
            prepare(&t, 0);
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (long i = 0; i < t.batch * t.blocks; i++) {
            long batch = i / t.blocks, query = i % t.blocks * BLOCK;
            if (is_exact(&t, batch, query))
                score_block(&t, 1, batch, query, to);
            else
                score_block(&t, 0, batch, query, to);
        }
    }
}

/* Write the gradients of q, k and v, all of them dense, from those of the scores. */
void additive_gradients(const shape *s, const float *q, const float *k, const float *v, const float *grad_scores,
                        float *grad_q, float *grad_k, float *grad_v, float *scratch, int threads)
{
    float *grad_v_rows = scratch + additive_scratch(s);
    for (long first = 0; first < s->batch; first += rows_per_chunk(s)) {
        task t = make_task(s, q, k, v, scratch, threads, first);
        gradients grads = {grad_scores + first * s->queries * s->positions, grad_q + first * s->queries * s->d,
                        grad_k + first * s->positions * s->d, grad_v_rows + first * s->d};
        if (t.exact)
            prepare(&t, 1);
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (long i = 0; i < t.batch * t.chunks; i++)
            chunk_gradients(&t, &grads, i / t.chunks, i % t.chunks);
    }
    memcpy(grad_v, grad_v_rows, sizeof(float) * s->d);
    for (long batch = 1; batch < s->batch; batch++)
        for (long i = 0; i < s->d; i++)
            grad_v[i] += grad_v_rows[batch * s->d + i];
}
