/* Scores of additive attention and their gradients, in float32:

       score(q, m) = sum over d of v[d] tanh(a[q, d] + b[m, d])

   No (q, m, d) array is made: the terms of a pair are summed as they are computed, and computed again for gradients.
   With r = 1 / (1 + e^(2a) e^(2b)) is tanh(a + b) = 1 - 2r. The exponentials are taken once for each query and each
   position, so that a term costs a multiplication, a reciprocal and an addition. That serves while no exponential
   overflows, and its error is about 1e-7. A block of queries with larger numbers (or with such small ones that 1e-7
   is much, or with an inf or NaN) takes tanh of each sum instead, as does a call with too few queries to win by it.

   Results do not depend on the number of threads: each number is summed by one of them, in a fixed order. */

#include "vectors.h"

/* GROUP queries, and as many positions, share what is loaded of each other. */
enum {
    FEW = 4,             /* with fewer queries the exponentials are not taken beforehand */
    BLOCK = 16,          /* queries of which it is judged together whether the exponentials serve */
    STRETCH = 64,        /* positions whose gradients stay in the nearest cache */
    WORKSPACE = 1 << 18, /* floats of exponentials at a time, if one row of the batch needs no more */
};

static const float SMALLEST = 0.25f, LARGEST = 40.0f; /* of max |a| + max |b|, where the exponentials serve */

typedef struct { /* one operand, (batch, rows, d) */
    const float *at;
    long rows, batch_stride, row_stride;
    float *powers;  /* e^(2x), in whole vectors */
    int32_t *peaks; /* the bits of each row's largest |x| */
} operand;

typedef struct {
    long batch, d, chunks, blocks; /* chunks of LANES numbers, blocks of BLOCK queries */
    int threads;
    const float *v;
    operand q, k;
    int32_t *exact; /* (batch, blocks): take tanh of each sum. All do where there is no such list. */
} task;

/* ---- terms: u = -tanh / 2, and w = (1 - tanh^2) / 4; a and b are powers if they are not to be exact ---- */

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
        vec sum = within(a[i] + b[i], 40.0f); /* tanh has long been 1 there */
        u[i] = sum + sum;
    }
    expm1_of(count, u, power);
    FOR_GROUP(i, count) {
        vec r = reciprocal(u[i] + 2.0f, 0.0f);
        w[i] = power[i] * r * r;
        u[i] *= r * -0.5f;
    }
}

/* ---- exponentials, and whether they serve ---- */

/* The powers of a row, vector by vector at a distance of `step`, and its peak. */
static void exp2x_row(const operand *x, const task *t, long batch, long row, float *to, long step)
{
    const float *from = x->at + batch * x->batch_stride + row * x->row_stride;
    ivec peak = {0};
    for (long c = 0; c < t->chunks; c++) {
        vec value = load(from + c * LANES, first_lanes(t->d - c * LANES)), power;
        /* Their bits are in the same order as the numbers, and those of NaN are the largest of all. */
        ivec size = (ivec)value & 0x7fffffff, larger = size > peak;
        peak = (size & larger) | (peak & ~larger);
        value += value;
        expm1_of(1, &value, &power);
        store(to + c * step, power, first_lanes(LANES));
    }
    int32_t most = 0;
    for (int i = 0; i < LANES; i++)
        most = peak[i] > most ? peak[i] : most;
    x->peaks[batch * x->rows + row] = most;
}

static float largest(const int32_t *peaks, long count)
{
    int32_t most = 0;
    float x;
    for (long i = 0; i < count; i++)
        most = peaks[i] > most ? peaks[i] : most;
    memcpy(&x, &most, sizeof x);
    return x;
}

/* All powers, row after row (for the scores) or `by_chunk`, one vector of every row before the next; and judge them. */
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
        float of_keys = largest(k, t->k.rows);
        for (long block = 0; block < t->blocks; block++) {
            long first = block * BLOCK, left = t->q.rows - first;
            float most = of_keys + largest(q + first, left < BLOCK ? left : BLOCK);
            t->exact[batch * t->blocks + block] = !(most >= SMALLEST && most <= LARGEST);
        }
    }
}

static int is_exact(const task *t, long batch, long query)
{
    return !t->exact || t->exact[batch * t->blocks + query / BLOCK];
}

/* ---- scores ---- */

static const float *row_of(const operand *x, const task *t, int exact, long batch, long row)
{
    return exact ? x->at + batch * x->batch_stride + row * x->row_stride
                 : x->powers + (batch * x->rows + row) * t->chunks * LANES;
}

/* `count` queries from `first` on with `span` positions from m on. */
static INLINE void score_positions(const task *t, int exact, int count, int span, long batch, long first, long m,
                                   float *scores)
{
    const float *q[GROUP], *k[GROUP];
    vec sums[GROUP][GROUP] = {{{0}}};
    FOR_GROUP(i, count) q[i] = row_of(&t->q, t, exact, batch, first + i);
    FOR_GROUP(j, span) k[j] = row_of(&t->k, t, exact, batch, m + j);
    for (long c = 0; c < t->chunks; c++) {
        long at = c * LANES;
        lanes left = first_lanes(t->d - at), whole = exact ? left : first_lanes(LANES);
        vec v = load(t->v + at, left), b[GROUP];
        FOR_GROUP(j, span) b[j] = load(k[j] + at, whole);
        FOR_GROUP(i, count) {
            vec one = load(q[i] + at, whole), a[GROUP] = {one, one, one, one}, u[GROUP], unused[GROUP];
            terms(exact, span, a, b, u, unused);
            FOR_GROUP(j, span) sums[i][j] += v * u[j];
        }
    }
    FOR_GROUP(i, count) {
        float four[GROUP];
        _mm_storeu_ps(four, -2.0f * sums_of(sums[i][0], sums[i][1], sums[i][2], sums[i][3]));
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
    const float *at;
    long step; /* from row to row */
    lanes there;
} column;

static column column_of(const operand *x, const task *t, int exact, long batch, long c, long row)
{
    if (exact)
        return (column){row_of(x, t, 1, batch, row) + c * LANES, x->row_stride, first_lanes(t->d - c * LANES)};
    return (column){x->powers + ((batch * t->chunks + c) * x->rows + row) * LANES, LANES, first_lanes(LANES)};
}

/* What `count` queries and `span` positions (of which one is 1) add to gradients, yet without the factor v. */
static INLINE void add_gradients(int exact, int count, int span, const vec *queries, column k,
                                 const float *of_scores, long score_step, vec *dq, vec *dk, vec *dv)
{
    vec a[GROUP], b[GROUP], u[GROUP], w[GROUP];
    FOR_GROUP(i, count * span) {
        a[i] = queries[i / span];
        b[i] = load(k.at + (i % span) * k.step, k.there);
    }
    terms(exact, count * span, a, b, u, w);
    FOR_GROUP(i, count * span) {
        vec of_score = broadcast(of_scores[i / span * score_step + i % span]);
        dv[i] += of_score * u[i];
        dq[i / span] += of_score * w[i];
        dk[i % span] += of_score * w[i];
    }
}

/* The same of `count` queries, 1 or GROUP, and a stretch of positions; dq is written, dk and dv are added to. */
static INLINE void gradients_of_queries(int exact, int count, column q, column k, long positions,
                                        const float *of_scores, long score_step, vec *dq, vec *dk, vec *dv)
{
    vec a[GROUP], of_q[GROUP] = {{0}}, of_v[GROUP] = {{0}};
    int span = GROUP / count;
    long m = 0;
    FOR_GROUP(i, count) a[i] = load(q.at + i * q.step, q.there);
    for (; m + span <= positions; m += span, k.at += span * k.step)
        add_gradients(exact, count, span, a, k, of_scores + m, score_step, of_q, dk + m, of_v);
    for (; m < positions; m++, k.at += k.step)
        add_gradients(exact, count, 1, a, k, of_scores + m, score_step, of_q, dk + m, of_v);
    FOR_GROUP(i, count) dq[i] = of_q[i];
    FOR_GROUP(i, GROUP) *dv += of_v[i];
}

typedef struct {
    const float *scores; /* what comes in */
    float *q, *k, *v;    /* what goes out; v: (batch, d) */
} gradients;

static void gradients_of_chunk(const task *t, const gradients *of, long batch, long c)
{
    long queries = t->q.rows, positions = t->k.rows, at = c * LANES;
    lanes left = first_lanes(t->d - at);
    vec v = 4.0f * load(t->v + at, left), dv = {0};
    for (long m = 0; m < positions; m += STRETCH) {
        long there = positions - m < STRETCH ? positions - m : STRETCH;
        vec dk[STRETCH], of_stretch = {0};
        for (long j = 0; j < there; j++)
            dk[j] = (vec){0};
        for (long first = 0, count; first < queries; first += count) {
            int exact = is_exact(t, batch, first);
            column q = column_of(&t->q, t, exact, batch, c, first), k = column_of(&t->k, t, exact, batch, c, m);
            const float *of_scores = of->scores + (batch * queries + first) * positions + m;
            vec dq[GROUP];
            count = queries - first < GROUP ? 1 : GROUP;
            if (count == GROUP && exact)
                gradients_of_queries(1, GROUP, q, k, there, of_scores, positions, dq, dk, &of_stretch);
            else if (count == GROUP)
                gradients_of_queries(0, GROUP, q, k, there, of_scores, positions, dq, dk, &of_stretch);
            else if (exact)
                gradients_of_queries(1, 1, q, k, there, of_scores, positions, dq, dk, &of_stretch);
            else
                gradients_of_queries(0, 1, q, k, there, of_scores, positions, dq, dk, &of_stretch);
            for (long i = 0; i < count; i++) {
                float *row = of->q + (batch * queries + first + i) * t->d + at;
                store(row, m ? v * dq[i] + load(row, left) : v * dq[i], left);
            }
        }
        for (long j = 0; j < there; j++)
            store(of->k + (batch * positions + m + j) * t->d + at, v * dk[j], left);
        dv += of_stretch;
    }
    store(of->v + batch * t->d + at, -2.0f * dv, left);
}

/* ---- what is called ---- */

typedef struct {
    long batch, queries, positions, d;
    long q_batch, q_row, k_batch, k_row; /* strides of q and of k, in floats */
} shape;

static long chunks_of(const shape *s) { return (s->d + LANES - 1) / LANES; }
static long blocks_of(const shape *s) { return (s->queries + BLOCK - 1) / BLOCK; }

/* Floats of scratch space for the powers of one row of the batch, and how many rows are done at a time. */
static long scratch_of_row(const shape *s)
{
    return (s->queries + s->positions) * (chunks_of(s) * LANES + 1) + blocks_of(s);
}

static long rows_per_chunk(const shape *s)
{
    long rows = s->queries < FEW ? s->batch : WORKSPACE / scratch_of_row(s);
    return rows < 1 ? 1 : rows < s->batch ? rows : s->batch;
}

/* Floats of scratch space that the functions below need; the gradients, for those of v, also batch * d more. */
long additive_scratch(const shape *s) { return s->queries < FEW ? 0 : rows_per_chunk(s) * scratch_of_row(s); }

/* What is to be done for `batch` rows of the batch from `first` on. */
static task task_of(const shape *s, const float *q, const float *k, const float *v, float *scratch, int threads,
                    long first)
{
    long batch = rows_per_chunk(s) < s->batch - first ? rows_per_chunk(s) : s->batch - first, width = chunks_of(s) * LANES;
    task t = {.batch = batch, .d = s->d, .chunks = chunks_of(s), .blocks = blocks_of(s), .threads = threads, .v = v,
              .q = {.at = q + first * s->q_batch, .rows = s->queries, .batch_stride = s->q_batch,
                    .row_stride = s->q_row},
              .k = {.at = k + first * s->k_batch, .rows = s->positions, .batch_stride = s->k_batch,
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
        task t = task_of(s, q, k, v, scratch, threads, first);
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

/* From the scores' gradients write those of q, k and v, all of them dense. */
void additive_gradients(const shape *s, const float *q, const float *k, const float *v, const float *of_scores,
                        float *of_q, float *of_k, float *of_v, float *scratch, int threads)
{
    float *of_v_by_row = scratch + additive_scratch(s);
    for (long first = 0; first < s->batch; first += rows_per_chunk(s)) {
        task t = task_of(s, q, k, v, scratch, threads, first);
        gradients of = {of_scores + first * s->queries * s->positions, of_q + first * s->queries * s->d,
                        of_k + first * s->positions * s->d, of_v_by_row + first * s->d};
        if (t.exact)
            prepare(&t, 1);
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (long i = 0; i < t.batch * t.chunks; i++)
            gradients_of_chunk(&t, &of, i / t.chunks, i % t.chunks);
    }
    memcpy(of_v, of_v_by_row, sizeof(float) * s->d);
    for (long batch = 1; batch < s->batch; batch++)
        for (long i = 0; i < s->d; i++)
            of_v[i] += of_v_by_row[batch * s->d + i];
}
