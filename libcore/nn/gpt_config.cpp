#include "nn/gpt_config.h"

#include "base/str.h"

namespace mtl {

void GptConfig::complete() {
  if (num_query_groups == 0) num_query_groups = num_heads;
  if (head_dim == 0 && num_heads > 0) head_dim = hidden_size / num_heads;
  if (ffn_hidden_size == 0) ffn_hidden_size = 4 * hidden_size;
}

std::vector<std::string> GptConfig::problems() const {
  std::vector<std::string> out;
  auto positive = [&](const char* name, std::int64_t value) {
    if (value <= 0) out.push_back(cat(name, " is ", value, "; it must be at least 1"));
  };
  positive("vocabulary size", vocab_size);
  positive("number of layers", num_layers);
  positive("hidden size", hidden_size);
  positive("number of attention heads", num_heads);
  positive("number of positions", max_positions);
  positive("feed-forward size", ffn_hidden_size);
  if (num_heads > 0 && hidden_size % num_heads != 0) {
    out.push_back(cat("hidden size ", hidden_size, " is not a multiple of the number of attention heads ", num_heads));
  } else if (num_heads > 0 && head_dim * num_heads != hidden_size) {
    out.push_back(cat("a head dimension of ", head_dim,
                      " is not supported; hidden size / heads = ", hidden_size / num_heads, " is"));
  }
  if (num_query_groups != num_heads)
    out.push_back("grouped queries are not supported; every head has its own key and value");
  if (norm != Norm::layernorm) out.push_back("RMSNorm is not supported; LayerNorm is");
  if (activation != Activation::gelu_tanh) out.push_back("only the tanh form of GELU (gelu_new) is supported");
  if (position_embedding != PositionEmbedding::learned)
    out.push_back("rotary positions are not supported; learned ones are");
  if (gated_mlp) out.push_back("a gated MLP is not supported");
  if (bias != LinearBias{}) out.push_back("linears without bias are not supported");
  if (qk_norm) out.push_back("norms of queries and keys are not supported");
  if (sliding_window != 0) out.push_back("a sliding window is not supported");
  if (parallel_residual) out.push_back("attention and MLP side by side are not supported");
  if (!tied_embeddings) out.push_back("an output layer of its own is not supported; it shares the token table");
  return out;
}

std::int64_t padded_vocab_size(std::int64_t vocab_size, std::int64_t multiple, std::int64_t tensor_parallel_size) {
  std::int64_t step = multiple * tensor_parallel_size;
  return (vocab_size + step - 1) / step * step;
}

}  // namespace mtl
