// Newton-Schulz iterations, which bring all singular values of a matrix close to 1 (Jordan et al. 2024). As in
// Emerging-Optimizers: X = U / max(|U|, 1e-7), then X = (a I + b A + c A^2) X with A = X X^T, and the numbers of the
// step.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "device/memory.h"
#include "device/stream.h"
#include "kernels/newton_schulz.h"

namespace mtl {

/// Lists of numbers, by their names in --muon-coefficient-type.
inline constexpr std::array kQuinticNames = {"simple", "quintic", "polar_express", "cans", "aol", "deepseekv4"};
/// Returns the numbers of `steps` iterations. Lists that are too short start over or repeat the last numbers.
/// `name` is one of kQuinticNames.
std::vector<QuinticStep> quintic_steps(std::string_view name, std::int64_t steps);

/// Replaces `matrix` (rows, columns) f32 by `scale` times the result. Products have operands of dtype `compute`: f32,
/// or bf16, to which X is rounded after each product. There is at least one step.
void orthogonalize(Stream& stream, Arena& scratch, Tensor matrix, const std::vector<QuinticStep>& steps, float scale,
                   DType compute);

}  // namespace mtl
