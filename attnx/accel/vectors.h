/* Vectors of float32, as wide as the processor's, and functions of them, which the C files of this package share. */

#ifndef ATTNX_VECTORS_H
#define ATTNX_VECTORS_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 8
#else
#error "without AVX2 this code is no faster than torch"
#endif

enum { GROUP = 4 }; /* vectors computed together, so that none waits for its own previous step */

#define INLINE inline __attribute__((always_inline)) /* so that constant arguments specialize a loop */
#define FOR_GROUP(i, count) _Pragma("GCC unroll 4") for (int i = 0; i < (count); i++) /* keeps sums in registers */

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

static INLINE vec broadcast(float x) { return x - (vec){0}; }

/* A mask selects the lanes of a row's last vector: the other lanes are zeros, and memory after the row is not read. */
#if LANES == 16
typedef __mmask16 lanes;
static INLINE lanes first_lanes(long count) { return count >= LANES ? 0xFFFF : (1 << count) - 1; }
static INLINE vec load(const float *from, lanes mask) { return _mm512_maskz_loadu_ps(mask, from); }
static INLINE void store(float *to, vec x, lanes mask) { _mm512_mask_storeu_ps(to, mask, x); }
static INLINE ivec lane_indices(void) { return (ivec){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
#else
typedef __m256i lanes;
static INLINE lanes first_lanes(long count)
{
    __m256i limit = _mm256_set1_epi32(count < LANES ? count : LANES);
    return _mm256_cmpgt_epi32(limit, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static INLINE vec load(const float *from, lanes mask) { return _mm256_maskload_ps(from, mask); }
static INLINE void store(float *to, vec x, lanes mask) { _mm256_maskstore_ps(to, mask, x); }
static INLINE ivec lane_indices(void) { return (ivec){0, 1, 2, 3, 4, 5, 6, 7}; }
#endif

/* The numbers at these indices of two vectors, one after the other. */
static INLINE vec permute(vec a, vec b, ivec index)
{
#if LANES == 16
    return _mm512_permutex2var_ps(a, (__m512i)index, b);
#else
    vec from_a = _mm256_permutevar8x32_ps(a, (__m256i)index), from_b = _mm256_permutevar8x32_ps(b, (__m256i)index);
    return _mm256_blendv_ps(from_a, from_b, (vec)(index > LANES - 1));
#endif
}

/* Transpose a matrix of LANES vectors: in blocks of 1, 2, 4 and so on, entries right of the diagonal are exchanged with
   those on its other side. */
static INLINE void transpose(vec *rows)
{
    _Pragma("GCC unroll 4") for (int size = 1; size < LANES; size *= 2) {
        ivec lane = lane_indices(), right = (lane & size) != 0; /* -1 where true */
        ivec upper = lane - right * (LANES - size), lower = lane + size - right * (LANES - size);
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) {
            if (i & size) continue;
            vec above = rows[i], below = rows[i + size];
            rows[i] = permute(above, below, upper);
            rows[i + size] = permute(above, below, lower);
        }
    }
}

/* 1 / x - shift: an estimate of 11 bits or more and one Newton step, with the error of a division's rounding. */
static INLINE vec reciprocal(vec x, float shift)
{
#if LANES == 16
    vec r = _mm512_rcp14_ps(x);
#else
    vec r = _mm256_rcp_ps(x);
#endif
    return r * (2.0f - x * r) - shift;
}

/* x limited to -limit .. limit; NaN stays NaN, because min and max return their second operand then. */
static INLINE vec clamp(vec x, float limit)
{
#if LANES == 16
    return _mm512_max_ps(broadcast(-limit), _mm512_min_ps(broadcast(limit), x));
#else
    return _mm256_max_ps(broadcast(-limit), _mm256_min_ps(broadcast(limit), x));
#endif
}

/* The sums of four vectors. */
static INLINE __m128 horizontal_sums(vec a, vec b, vec c, vec d)
{
#if LANES == 16
    vec ab = _mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b);
    vec cd = _mm512_unpacklo_ps(c, d) + _mm512_unpackhi_ps(c, d);
    vec abcd = _mm512_shuffle_ps(ab, cd, 0x44) + _mm512_shuffle_ps(ab, cd, 0xEE);
    __m256 half = _mm512_castps512_ps256(abcd) + _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(abcd), 1));
#else
    vec ab = _mm256_unpacklo_ps(a, b) + _mm256_unpackhi_ps(a, b);
    vec cd = _mm256_unpacklo_ps(c, d) + _mm256_unpackhi_ps(c, d);
    __m256 half = _mm256_shuffle_ps(ab, cd, 0x44) + _mm256_shuffle_ps(ab, cd, 0xEE);
#endif
    return _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
}

/* e^x - 1 in full precision for |x| < 87, in place, and e^x in power; NaN stays NaN.
   Each step is computed for all vectors before the next step, so that vectors do not wait for each other. */
static INLINE void expm1_vectors(int count, vec *x, vec *power)
{
    vec p[GROUP], scale[GROUP];
    FOR_GROUP(i, count) {
        vec shifted = x[i] * 1.44269504f + 12582912.0f; /* the last bits are n, x / ln 2 rounded */
        vec n = shifted - 12582912.0f;
        scale[i] = (vec)(((ivec)shifted + 127) << 23);       /* 2^n */
        x[i] = x[i] - n * 0.693359375f + n * 2.12194440e-4f; /* x - n ln 2, with ln 2 in two parts */
    }
    FOR_GROUP(i, count) p[i] = x[i] * (1.0f / 5040) + 1.0f / 720;
    FOR_GROUP(i, count) p[i] = p[i] * x[i] + 1.0f / 120;
    FOR_GROUP(i, count) p[i] = p[i] * x[i] + 1.0f / 24;
    FOR_GROUP(i, count) p[i] = p[i] * x[i] + 1.0f / 6;
    FOR_GROUP(i, count) p[i] = p[i] * x[i] + 0.5f;
    FOR_GROUP(i, count) p[i] = p[i] * (x[i] * x[i]) + x[i];
    FOR_GROUP(i, count) power[i] = p[i] * scale[i] + scale[i];
    FOR_GROUP(i, count) x[i] = p[i] * scale[i] + (scale[i] - 1.0f);
}

#endif
