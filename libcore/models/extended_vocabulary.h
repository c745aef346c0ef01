// A model with more tokens than its files have: the token embedding and the output layer get new rows. Part of the
// implementation of model_source.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace mtl {

class TensorReader;

/// What the rows of new tokens are.
enum class NewRows {
  mean,  // the mean of all old rows of the same tensor, so that a new token begins as an average one
  init,  // random, as the same rows of a new model of the new size
};

/// Returns the value for "mean" or "init". Throws Error(failure) for another name.
NewRows parse_new_rows(std::string_view name);

/// Returns a reader of the model with `tokens` rows, more than it has. Means are summed in fp64, row by row. Random
/// rows depend on `seed` and on the row's index in the whole tensor. Both are rounded to the stored dtype, and are the
/// same for any slice that contains them. Rows of optimizer states are 0.
std::unique_ptr<TensorReader> extended_vocabulary(std::unique_ptr<TensorReader> reader, std::int64_t tokens,
                                                  NewRows rows, std::uint64_t seed);

}  // namespace mtl
