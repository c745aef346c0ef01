// Reads arbitrary bytes as the distrib_optim.pt of a small model. Expects an error, or states whose elements can all be
// read.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/torch_writer.h"
#include "models/megatron_distrib_optim.h"
#include "tests/fuzz/read_model.h"

using namespace mtl;

namespace {

/// A checkpoint of three parameters with buckets of 10 elements, in memory if possible. Removed at exit.
class SmallRun {
 public:
  SmallRun() {
    make_directories(folder_);
    write_weights();
    model_ = read_megatron_model({.paths = {folder_ + "/model_optim_rng.pt"}});
  }
  ~SmallRun() { fs::remove_all(folder_); }
  SmallRun(const SmallRun&) = delete;

  void write_states(const std::uint8_t* data, std::size_t size) const {
    OutputFile file(folder_ + "/distrib_optim.pt");
    file.write(data, size);
    file.close();
  }
  const MegatronModel& model() const { return model_; }

 private:
  void write_weights() const {
    const std::vector<std::pair<const char*, std::vector<std::int64_t>>> params = {
        {"embedding.word_embeddings.weight", {4, 4}},
        {"decoder.layers.0.input_layernorm.weight", {4}},
        {"decoder.final_layernorm.weight", {4}}};
    OutputFile file(folder_ + "/model_optim_rng.pt");
    TorchWriter writer(file, "model_optim_rng");
    PickleWriter& pickle = writer.pickle();
    pickle.begin_dict();
    pickle.text("args");
    pickle.global("argparse", "Namespace");
    pickle.begin_tuple(), pickle.end_tuple();
    pickle.new_object();
    pickle.begin_dict();
    pickle.text("overlap_grad_reduce"), pickle.boolean(true);
    pickle.text("ddp_bucket_size"), pickle.integer(10);
    pickle.end_dict();
    pickle.build();
    pickle.text("model");
    pickle.begin_dict();
    for (const auto& [name, shape] : params) pickle.text(name), writer.tensor(StoredDType::f32, shape);
    pickle.end_dict();
    for (const char* key : {"optimizer", "optimizer", "param_groups"}) pickle.text(key), pickle.begin_dict();
    for (int i = 0; i < 4; ++i) pickle.end_dict();
    for (const auto& [name, shape] : params) {
      const std::vector<std::byte> zeros(whole_slice(shape).count() * sizeof(float));
      writer.write_data(zeros);
    }
    writer.finish();
    file.close();
  }

  std::string folder_ = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_distrib_optim_fuzz.", ::getpid());
  MegatronModel model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SmallRun run;
  run.write_states(data, size);
  try {
    read_states(read_distributed_optimizer(run.model()));
  } catch (const Error&) {
  }
  return 0;
}
