// SPDX-License-Identifier: BSD-3-Clause
// erf and gelu in float32 as in pieces512.h, for AVX2: 8 pieces, as a register has 8 coefficients.
// Only the per-ISA kernel files include this.
#pragma once
#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
#include <immintrin.h>

#define COGRAD_PIECES256 1

// See vecmath.h for the reason for the unnamed namespace.
namespace cograd::kernels {
namespace {

// Holds an odd function for arguments up to 7 steps; see Pieces512.
struct Pieces256 {
  float step;
  float c[8][8];
};
inline constexpr Pieces256 kErf = {
    0.5703125f,
    {
        {0.0f, 0.58007056f, 0.8932745f, 0.98446375f, 0.99874544f, 0.99994487f, 0.9999987f, 1.0f},
        {1.1283791f, 0.8150759f, 0.30720404f, 0.060414575f, 0.0061992975f, 3.3191673e-4f,
         9.272598e-6f, 1.3516306e-7f},
        {0.0f, -0.46484685f, -0.3504054f, -0.10336552f, -0.014142026f, -9.464981e-4f,
         -3.1736025e-5f, -5.400323e-7f},
        {-0.3761257f, -0.09495329f, 0.16405213f, 0.09776329f, 0.019441368f, 0.0016886578f,
         6.929505e-5f, 1.3913356e-6f},
        {0.0f, 0.181958f, 0.023289364f, -0.049180806f, -0.017468726f, -0.0020911277f,
         -1.0758987e-4f, -2.5703077e-6f},
        {0.11279576f, -0.0130136935f, -0.059817396f, 0.0043185814f, 0.010104013f, 0.0018800009f,
         1.2685066e-4f, 3.712958e-6f},
        {0.0f, -0.044722643f, 0.015579359f, 0.01070117f, -0.0028788853f, -0.0012495394f,
         -1.2369598e-4f, -4.7866147e-6f},
        {-0.02603194f, 0.010113499f, 0.008817074f, -0.0060620415f, -4.926725e-4f, 5.493771e-4f,
         8.633829e-5f, 4.3060936e-6f},
    }};
inline constexpr Pieces256 kGelu = {
    0.796875f,
    {
        {0.0f, 0.28723818f, 0.444504f, 0.49159014f, 0.49928245f, 0.49996617f, 0.49999914f, 0.5f},
        {0.3989423f, 0.29041526f, 0.11203342f, 0.022903113f, 0.002481191f, 1.4244414e-4f,
         4.3335876e-6f, 6.9866346e-8f},
        {0.0f, -0.11571207f, -0.08927681f, -0.027376372f, -0.0039543672f, -2.8377905e-4f,
         -1.0361689e-5f, -1.9499376e-7f},
        {-0.06649027f, -0.01766652f, 0.028755965f, 0.01799839f, 0.0037880081f, 3.5314768e-4f,
         1.5789428e-5f, 3.507342e-7f},
        {0.0f, 0.022796627f, 0.0034277642f, -0.006194225f, -0.0023604785f, -3.043594e-4f,
         -1.7092547e-5f, -4.5243263e-7f},
        {0.009970005f, -9.82501e-4f, -0.0054038996f, 2.6100507e-4f, 9.362356e-4f, 1.896829e-4f,
         1.4013045e-5f, 4.5496932e-7f},
        {0.0f, -0.0028263445f, 9.2054135e-4f, 7.229115e-4f, -1.728641e-4f, -8.6507614e-5f,
         -9.43016e-6f, -4.0487024e-7f},
        {-0.0011513232f, 4.2758332e-4f, 4.179015e-4f, -2.695486e-4f, -3.0805364e-5f, 2.5721078e-5f,
         4.550486e-6f, 2.5323735e-7f},
    }};
inline constexpr Pieces256 kGeluSlope = {
    0.8984375f,
    {
        {0.0f, 0.5549209f, 0.60648537f, 0.524929f, 0.50208604f, 0.50007087f, 0.500001f, 0.5f},
        {0.7978845f, 0.31783542f, -0.09755753f, -0.055561356f, -0.0068307794f, -3.009687e-4f,
         -5.2865453e-6f, -3.8624574e-8f},
        {0.0f, -0.38217244f, -0.055016153f, 0.046433624f, 0.010024831f, 6.016244e-4f, 1.3201359e-5f,
         1.1524875e-7f},
        {-0.26595923f, 0.04435365f, 0.108195595f, -0.010418363f, -0.008385178f, -7.448694e-4f,
         -2.1004185e-5f, -2.2152545e-7f},
        {0.0f, 0.097422734f, -0.04209449f, -0.010855623f, 0.004009632f, 6.300514e-4f, 2.367889e-5f,
         3.02861e-7f},
        {0.059784632f, -0.029416224f, -0.008971436f, 0.009548039f, -6.573866e-4f, -3.7465163e-4f,
         -2.0299649e-5f, -3.2994973e-7f},
        {0.0f, -0.013177376f, 0.010548699f, -0.0022371889f, -5.104732e-4f, 1.4880364e-4f,
         1.4531973e-5f, 3.3624505e-7f},
        {-0.009045184f, 0.006175573f, -0.0013565721f, -6.30655e-4f, 3.714796e-4f, -2.98323e-5f,
         -7.1975505e-6f, -2.2489593e-7f},
    }};

inline __m256 abs256(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
// Gives a magnitude that is not negative the sign of `sign`.
inline __m256 copysign256(__m256 value, __m256 sign) {
  return _mm256_or_ps(value, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

// Evaluates at |v|; a NaN stays NaN.
template <const Pieces256& kPieces>
inline __m256 pieces256(__m256 v) {
  const __m256 step = _mm256_set1_ps(kPieces.step);
  const __m256 x = _mm256_min_ps(_mm256_set1_ps(7 * kPieces.step), abs256(v));
  // Adding `shift` leaves the number of the piece in the low bits.
  const __m256 shift = _mm256_set1_ps(0x1.8p23f);
  const __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(1 / kPieces.step), shift);
  const __m256 d = _mm256_fnmadd_ps(_mm256_sub_ps(t, shift), step, x);
  const auto coefficient = [&](int n) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(kPieces.c[n]), _mm256_castps_si256(t));
  };
  __m256 q = coefficient(7);
  for (int n = 6; n >= 0; --n) q = _mm256_fmadd_ps(q, d, coefficient(n));
  return q;
}

inline __m256 erf256(__m256 v) { return copysign256(pieces256<kErf>(v), v); }
inline __m256 gelu256(__m256 v) {
  const __m256 half = _mm256_mul_ps(v, _mm256_set1_ps(0.5f));
  return _mm256_fmadd_ps(abs256(v), pieces256<kGelu>(v), half);
}
inline __m256 gelu_backward256(__m256 g, __m256 v) {
  const __m256 odd = copysign256(pieces256<kGeluSlope>(v), v);
  return _mm256_mul_ps(g, _mm256_add_ps(_mm256_set1_ps(0.5f), odd));
}

}  // namespace
}  // namespace cograd::kernels
#endif
