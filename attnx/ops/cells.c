/* One step of a recurrent cell and its gradient, for n rows of h units; everything is float32 and laid out densely.

   The products with the weights are made by their callers. What is pointwise is done here in one pass over memory,
   where separate tensor operations take ten. All loops are written so that the compiler can turn them into vectors. */
#include <math.h>
#include <stdint.h>

/* e^x to about 1e-7 of itself, as 2^n 2^f; beyond +-87, where float32 ends, as at the end. NaN stays NaN. */
static inline float exp_(float x) {
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float n = rintf(x * 1.442695041f);
    float f = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two pieces, the first without rounding */
    float p = 1.9875691500e-4f;                            /* minimax on [-ln 2 / 2, ln 2 / 2], as in Cephes */
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.0f;
    union { int32_t bits; float number; } power = {.bits = ((int32_t)n + 127) << 23};
    return p * power.number;
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp_(-x)); }
static inline float tanh_(float x) { return 1.0f - 2.0f / (1.0f + exp_(x + x)); }

/* x (n, 4h): i, f, g, o before their activations; gates: after them. */
void lstm_forward(long n, long h, const float *x, const float *c_before, float *gates, float *c, float *out) {
    #pragma omp parallel for if (n * h > 16384)
    for (long row = 0; row < n; row++) {
        const float *restrict xi = x + row * 4 * h, *restrict xf = xi + h, *restrict xg = xf + h, *restrict xo = xg + h;
        float *restrict i = gates + row * 4 * h, *restrict f = i + h, *restrict g = f + h, *restrict o = g + h;
        const float *restrict before = c_before + row * h;
        float *restrict now = c + row * h, *restrict y = out + row * h;
        #pragma omp simd
        for (long k = 0; k < h; k++) {
            i[k] = sigmoid(xi[k]);
            f[k] = sigmoid(xf[k]);
            g[k] = tanh_(xg[k]);
            o[k] = sigmoid(xo[k]);
            now[k] = f[k] * before[k] + i[k] * g[k];
            y[k] = o[k] * tanh_(now[k]);
        }
    }
}

/* From the gradients of the output and of c: d (n, 4h) before the activations, and dc of c_before. */
void lstm_backward(long n, long h, const float *gates, const float *c_before, const float *c, const float *dout,
                   const float *dc_after, float *dc, float *d) {
    #pragma omp parallel for if (n * h > 16384)
    for (long row = 0; row < n; row++) {
        const float *restrict i = gates + row * 4 * h, *restrict f = i + h, *restrict g = f + h, *restrict o = g + h;
        float *restrict di = d + row * 4 * h, *restrict df = di + h, *restrict dg = df + h, *restrict do_ = dg + h;
        const float *restrict before = c_before + row * h, *restrict now = c + row * h;
        const float *restrict dy = dout + row * h, *restrict dnow = dc_after + row * h;
        float *restrict dbefore = dc + row * h;
        #pragma omp simd
        for (long k = 0; k < h; k++) {
            float t = tanh_(now[k]), e = dnow[k] + dy[k] * o[k] * (1 - t * t);
            do_[k] = dy[k] * t * o[k] * (1 - o[k]);
            di[k] = e * g[k] * i[k] * (1 - i[k]);
            df[k] = e * before[k] * f[k] * (1 - f[k]);
            dg[k] = e * i[k] * (1 - g[k] * g[k]);
            dbefore[k] = e * f[k];
        }
    }
}

/* x and u (n, 3h): r, z, n from the input and from the state, before activation; gates: after it. */
void gru_forward(long n, long h, const float *x, const float *u, const float *h_before, float *gates, float *out) {
    #pragma omp parallel for if (n * h > 16384)
    for (long row = 0; row < n; row++) {
        const float *restrict xr = x + row * 3 * h, *restrict xz = xr + h, *restrict xc = xz + h;
        const float *restrict ur = u + row * 3 * h, *restrict uz = ur + h, *restrict uc = uz + h;
        float *restrict r = gates + row * 3 * h, *restrict z = r + h, *restrict c = z + h;
        const float *restrict before = h_before + row * h;
        float *restrict y = out + row * h;
        #pragma omp simd
        for (long k = 0; k < h; k++) {
            r[k] = sigmoid(xr[k] + ur[k]);
            z[k] = sigmoid(xz[k] + uz[k]);
            c[k] = tanh_(xc[k] + r[k] * uc[k]);
            y[k] = c[k] + z[k] * (before[k] - c[k]);
        }
    }
}

/* dx and du (n, 3h) become the gradients before the activations; dh that of h_before but for what goes through u. */
void gru_backward(long n, long h, const float *gates, const float *u, const float *h_before, const float *dout,
                  float *dh, float *dx, float *du) {
    #pragma omp parallel for if (n * h > 16384)
    for (long row = 0; row < n; row++) {
        const float *restrict r = gates + row * 3 * h, *restrict z = r + h, *restrict c = z + h;
        const float *restrict uc = u + row * 3 * h + 2 * h, *restrict before = h_before + row * h;
        const float *restrict dy = dout + row * h;
        float *restrict dxr = dx + row * 3 * h, *restrict dxz = dxr + h, *restrict dxc = dxz + h;
        float *restrict dur = du + row * 3 * h, *restrict duz = dur + h, *restrict duc = duz + h;
        float *restrict d = dh + row * h;
        #pragma omp simd
        for (long k = 0; k < h; k++) {
            float dc = dy[k] * (1 - z[k]) * (1 - c[k] * c[k]);
            dxc[k] = dc;
            duc[k] = dc * r[k];
            dxr[k] = dur[k] = dc * uc[k] * r[k] * (1 - r[k]);
            dxz[k] = duz[k] = dy[k] * (before[k] - c[k]) * z[k] * (1 - z[k]);
            d[k] = dy[k] * z[k];
        }
    }
}
