// Where the gradient buffers of Megatron-LM's ranks have the model's parameters.
#include <doctest/doctest.h>

#include <map>

#include "formats/pickle_writer.h"
#include "formats/torch_globals.h"
#include "models/megatron_stages.h"
#include "models/torch_dist_buffers.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A pickled dict of arguments.
class Args {
 public:
  Args(std::int64_t tensor, std::int64_t pipeline, const char* implementation,
       const std::map<std::string, std::int64_t>& extra = {}) {
    PickleWriter writer;
    writer.begin_dict();
    writer.text("tensor_model_parallel_size"), writer.integer(tensor);
    writer.text("pipeline_model_parallel_size"), writer.integer(pipeline);
    if (implementation != nullptr) writer.text("transformer_impl"), writer.text(implementation);
    for (const auto& [name, value] : extra) {
      writer.text(name);
      starts_with(name, "account") ? writer.boolean(value != 0) : writer.integer(value);
    }
    writer.end_dict();
    text_ = writer.finish();
    pickle_ = std::make_unique<Pickle>(text_, torch_global_use);
  }
  PickleValue root() const { return pickle_->root(); }

 private:
  std::string text_;
  std::unique_ptr<Pickle> pickle_;
};

std::vector<std::string> names_of(const DistBuffer& buffer) {
  std::vector<std::string> names;
  for (const DistBufferParam& param : buffer.params) names.push_back(param.name);
  return names;
}

}  // namespace

TEST_CASE("dist buffers: the module order is that of the implementation") {
  const GptConfig config = tiny_config();
  const Args local(1, 1, "local"), engine(1, 1, "transformer_engine"), unknown(1, 1, nullptr);
  const std::vector<DistBuffer> a = torch_dist_buffers(config, local.root(), 12);
  const std::vector<DistBuffer> b = torch_dist_buffers(config, engine.root(), 12);
  CHECK(names_of(torch_dist_buffers(config, unknown.root(), 12)[0]) == names_of(b[0]));
  REQUIRE(a.size() == 1);
  CHECK(names_of(a[0]).at(2) == "layers.0.norm1.weight");
  CHECK(names_of(b[0]).at(2) == "layers.0.attention.out.weight");
  CHECK(names_of(b[0]).at(4) == "layers.0.norm1.weight");
  CHECK(names_of(a[0]).back() == "final_norm.bias");  // the output layer is tied
  CHECK(a[0].params[0].parts.at(0).row_end == 12);
  CHECK(a[0].params.back().range.begin == 0);  // the last parameter comes first
}

TEST_CASE("dist buffers: stages and tensor parallel ranks have their parts") {
  GptConfig config = tiny_config(2);
  config.gated_mlp = true;
  config.ffn_hidden_size = 6;
  const Args args(2, 2, "local");
  const std::vector<DistBuffer> buffers = torch_dist_buffers(config, args.root(), 12);
  REQUIRE(buffers.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(buffers[i].group == static_cast<std::int64_t>(i));
  CHECK(names_of(buffers[0]).front() == "embedding.tokens.weight");
  CHECK(names_of(buffers[2]).front() == "layers.1.norm1.weight");
  CHECK(names_of(buffers[2]).back().empty());  // the copy of the token embedding, in a bucket of its own
  CHECK(buffers[2].params.back().range.bucket == 0);
  CHECK(buffers[2].buffer.buckets.size() == 2);
  CHECK(buffers[3].params[0].is_replica);
  for (const DistBufferParam& param : buffers[3].params) {
    if (param.name != "layers.1.mlp.up.weight") continue;
    REQUIRE(param.parts.size() == 2);  // the second halves of gates and of up projections
    CHECK(param.parts[0].row_begin == 3);
    CHECK(param.parts[1].row_begin == 9);
    CHECK(param.parts[1].row_end == 12);
  }
}

TEST_CASE("dist buffers: the ranges and parts of all parameters on a tensor parallel rank") {
  GptConfig config = tiny_config();
  config.gated_mlp = true;
  config.ffn_hidden_size = 6;
  const Args args(2, 1, "local");
  std::string text = "\n";
  const std::vector<DistBuffer> buffers = torch_dist_buffers(config, args.root(), 12);
  for (const DistBufferParam& param : buffers.at(1).params) {
    text += cat(param.name, " ", param.range.begin, "-", param.range.end, param.is_replica ? " replica" : "");
    for (const Rectangle& part : param.parts)
      text += cat(" [", part.row_begin, ":", part.row_end, ", ", part.column_begin, ":", part.column_end, "]");
    text += "\n";
  }
  CHECK(text == R"(
embedding.tokens.weight 1024-1072 [6:12, 0:8]
embedding.positions.weight 960-1000 replica [0:5, 0:8]
layers.0.norm1.weight 896-904 replica [0:8, 0:1]
layers.0.norm1.bias 832-840 replica [0:8, 0:1]
layers.0.attention.out.weight 768-800 [0:8, 4:8]
layers.0.attention.out.bias 704-712 replica [0:8, 0:1]
layers.0.attention.qkv.weight 576-672 [12:24, 0:8]
layers.0.attention.qkv.bias 512-524 [12:24, 0:1]
layers.0.norm2.weight 448-456 replica [0:8, 0:1]
layers.0.norm2.bias 384-392 replica [0:8, 0:1]
layers.0.mlp.up.weight 320-368 [3:6, 0:8] [9:12, 0:8]
layers.0.mlp.up.bias 256-262 [3:6, 0:1] [9:12, 0:1]
layers.0.mlp.down.weight 192-216 [0:8, 3:6]
layers.0.mlp.down.bias 128-136 replica [0:8, 0:1]
final_norm.weight 64-72 replica [0:8, 0:1]
final_norm.bias 0-8 replica [0:8, 0:1]
)");
  const auto problem = [&](std::int64_t tensor, std::int64_t stages, std::int64_t first = -1) {
    std::map<std::string, std::int64_t> extra;
    if (first >= 0) extra = {{"decoder_first_pipeline_num_layers", first}, {"decoder_last_pipeline_num_layers", 1}};
    const Args others(tensor, stages, "local", extra);
    return error_of([&] { torch_dist_buffers(config, others.root(), 12); }, Exit::bad_data);
  };
  CHECK(contains(problem(65537, 1), "the args state 65537 tensor parallel ranks"));
  CHECK(contains(problem(5, 1), "the size of 'embedding.tokens.weight' is not a multiple of the 5 tensor"));
  CHECK(contains(problem(4, 1), "the size of 'layers.0.mlp.up.weight' is not a multiple of the 4 tensor"));
  config.gated_mlp = false;
  CHECK(contains(problem(12, 1), "the size of 'layers.0.attention.out.weight' is not a multiple of the 12 tensor"));
  config.ffn_hidden_size = 8;
  CHECK(contains(problem(1, 3, 0), "stage 1 has no parameters"));
}

TEST_CASE("dist buffers: interleaved stages have a buffer for each chunk") {
  const Args args(1, 2, "local", {{"virtual_pipeline_model_parallel_size", 2}});
  const std::vector<DistBuffer> buffers = torch_dist_buffers(tiny_config(4), args.root(), 12);
  REQUIRE(buffers.size() == 4);
  const char* firsts[] = {"embedding.tokens.weight", "layers.2.norm1.weight", "layers.1.norm1.weight",
                          "layers.3.norm1.weight"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(buffers[i].group == static_cast<std::int64_t>(i / 2));
    CHECK(buffers[i].chunk == static_cast<std::int64_t>(i % 2));
    CHECK(names_of(buffers[i]).front() == firsts[i]);
  }
  CHECK(names_of(buffers[2]).back() == "layers.1.mlp.down.bias");
  CHECK(names_of(buffers[3]).back().empty());
}

TEST_CASE("megatron stages: layers by chunk and stage") {
  const auto layers = [](std::int64_t count, std::int64_t stages, const std::map<std::string, std::int64_t>& extra) {
    const Args args(1, stages, "local", extra);
    std::string text;
    for (const auto& chunks : megatron_stages(args.root(), count)) {
      for (const MegatronLayers& one : chunks) text += cat(one.first, "+", one.count, " ");
      text += "| ";
    }
    return text;
  };
  CHECK(layers(6, 3, {}) == "0+2 | 2+2 | 4+2 | ");
  CHECK(layers(8, 2, {{"virtual_pipeline_model_parallel_size", 2}}) == "0+2 4+2 | 2+2 6+2 | ");
  CHECK(layers(4, 1, {{"virtual_pipeline_model_parallel_size", 2}}) == "0+4 | ");
  CHECK(layers(7, 3, {{"decoder_first_pipeline_num_layers", 1}}) == "0+1 | 1+3 | 4+3 | ");
  CHECK(layers(7, 3, {{"decoder_first_pipeline_num_layers", 1}, {"decoder_last_pipeline_num_layers", 2}}) ==
        "0+1 | 1+4 | 5+2 | ");
  CHECK(layers(12, 2, {{"decoder_first_pipeline_num_layers", 4}, {"virtual_pipeline_model_parallel_size", 2}}) ==
        "0+2 6+2 | 2+4 8+4 | ");
  CHECK(layers(6, 2,
               {{"account_for_embedding_in_pipeline_split", 1},
                {"account_for_loss_in_pipeline_split", 1},
                {"virtual_pipeline_model_parallel_size", 2}}) == "0+1 3+2 | 1+2 5+1 | ");
  CHECK(layers(4, 3, {{"decoder_first_pipeline_num_layers", 2}, {"decoder_last_pipeline_num_layers", 2}}) ==
        "0+2 | 2+0 | 2+2 | ");
  CHECK(layers(4, 2, {{"decoder_first_pipeline_num_layers", 1}, {"decoder_last_pipeline_num_layers", 3}}) ==
        "0+1 | 1+3 | ");
  CHECK(layers(4, 3, {{"decoder_first_pipeline_num_layers", 0}}) == "0+0 | 0+2 | 2+2 | ");
  CHECK(layers(4, 2, {{"account_for_embedding_in_pipeline_split", 0}}) == "0+2 | 2+2 | ");
  CHECK(layers(3, 2, {{"account_for_embedding_in_pipeline_split", 1}, {"decoder_first_pipeline_num_layers", 1}}) ==
        "0+0 | 0+3 | ");
  const auto problem = [&](std::int64_t count, const std::map<std::string, std::int64_t>& extra,
                           std::int64_t stages = 2) {
    return error_of([&] { layers(count, stages, extra); }, Exit::bad_data);
  };
  const std::map<std::string, std::int64_t> ends = {{"decoder_first_pipeline_num_layers", 2},
                                                    {"decoder_last_pipeline_num_layers", 2}};
  for (const std::int64_t stages : {1, 2}) CHECK(contains(problem(5, ends, stages), "does not give whole layers"));
  CHECK(contains(problem(4, ends, 1), "does not give whole layers"));
  CHECK(contains(problem(7, {{"decoder_first_pipeline_num_layers", 3}, {"virtual_pipeline_model_parallel_size", 2}}),
                 "does not give whole layers"));
  CHECK(contains(problem(4, {{"account_for_embedding_in_pipeline_split", 1}, {"decoder_first_pipeline_num_layers", 0}}),
                 "fewer than 0 layers"));
  constexpr std::int64_t kMost = 65536;
  CHECK(contains(problem(4, {{"virtual_pipeline_model_parallel_size", kMost}}), "does not give whole layers"));
  CHECK(contains(problem(4, {{"virtual_pipeline_model_parallel_size", kMost + 1}}), "to 65536"));
  CHECK(contains(problem(4, {}, kMost), "does not give whole layers"));
  CHECK(contains(problem(4, {}, kMost + 1), "the args state 65537 pipeline stages"));
  CHECK(contains(problem(2 * kMost, {{"virtual_pipeline_model_parallel_size", 2}}, kMost), "whole layers"));
  CHECK(contains(problem(5, {}), "does not give whole layers"));
  CHECK(contains(problem(4, {{"decoder_first_pipeline_num_layers", 5}}), "does not give whole layers"));
  CHECK(contains(problem(4, {{"virtual_pipeline_model_parallel_size", 3}}), "does not give whole layers"));
  CHECK(contains(problem(4, {{"virtual_pipeline_model_parallel_size", 0}}), "must be from 1"));
  CHECK(contains(problem(4, {{"pipeline_model_parallel_layout", 1}}), "pipeline_model_parallel_layout"));
}
