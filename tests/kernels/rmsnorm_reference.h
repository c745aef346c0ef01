// Computes RMSNorm row by row from its equations in fp64, for the rmsnorm and head_norm tests.
#pragma once

#include <vector>

#include "tests/kernels/reference.h"

namespace mtl::test {

inline constexpr float kRmsNormEps = 1e-5f;

/// Results for consecutive rows. dgamma is summed over the rows.
struct RmsNormReference {
  explicit RmsNormReference(std::size_t width) : dgamma(width) {}

  void add_row(const double* x, const double* dy, const double* gamma) {
    const std::size_t width = dgamma.size();
    double squares = 0, mean_gx = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + double{kRmsNormEps});
    for (std::size_t i = 0; i < width; ++i) {
      const double x_hat = x[i] * r;
      y.push_back(gamma[i] * x_hat);
      dgamma[i] += dy[i] * x_hat;
      mean_gx += gamma[i] * dy[i] * x_hat / static_cast<double>(width);
    }
    for (std::size_t i = 0; i < width; ++i) dx.push_back(r * (gamma[i] * dy[i] - x[i] * r * mean_gx));
    rstd.push_back(r);
  }

  std::vector<double> y, rstd, dx, dgamma;
};

}  // namespace mtl::test
