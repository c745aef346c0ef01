// Reads arbitrary bytes as one of the files of a small DeepSpeed checkpoint. Expects an error, or parameters and states
// whose elements can all be read.
//
// The first byte chooses the file: that of the model-parallel rank, that of its optimizer with ZeRO 1, a file of a
// universal checkpoint, or the optimizer's file of a rank whose own file does not state shapes. The others are sound.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/torch_writer.h"
#include "models/deepspeed_optimizer.h"
#include "tests/fuzz/read_model.h"

using namespace mtl;

namespace {

struct Param {
  const char* name;
  std::vector<std::int64_t> shape;
};

const std::vector<Param>& params() {
  static const std::vector<Param> list = {{"language_model.embedding.word_embeddings.weight", {4, 4}},
                                          {"language_model.encoder.layers.0.input_layernorm.weight", {4}},
                                          {"language_model.encoder.final_layernorm.weight", {4}}};
  return list;
}

void write_bytes(const std::string& path, const std::uint8_t* data, std::size_t size) {
  OutputFile file(path);
  file.write(data, size);
  file.close();
}

/// Writes torch.save() of {param: a tensor of zeros, cat_dim: 0}.
void write_merged(const std::string& path, const std::vector<std::int64_t>& shape) {
  OutputFile file(path);
  TorchWriter writer(file, "merged");
  PickleWriter& pickle = writer.pickle();
  pickle.begin_dict();
  pickle.text("param"), writer.tensor(StoredDType::f32, shape);
  pickle.text("cat_dim"), pickle.integer(0);
  pickle.end_dict();
  writer.write_data(std::vector<std::byte>(whole_slice(shape).count() * sizeof(float)));
  writer.finish();
  file.close();
}

/// Three checkpoints of three parameters, in memory if possible. Removed at exit.
class SmallCheckpoints {
 public:
  SmallCheckpoints() {
    for (const std::string& folder : {zero(), universal(), plain()}) {
      make_directories(folder);
      write_rank(folder + "/mp_rank_00_model_states.pt", folder != plain());
    }
    for (const Param& param : params()) {
      const std::string folder = cat(universal(), "/zero/", param.name);
      make_directories(folder);
      for (const char* state : {"fp32", "exp_avg", "exp_avg_sq"})
        write_merged(cat(folder, "/", state, ".pt"), param.shape);
    }
  }
  ~SmallCheckpoints() { fs::remove_all(folder_); }
  SmallCheckpoints(const SmallCheckpoints&) = delete;

  std::string zero() const { return folder_ + "/zero_1"; }
  std::string universal() const { return folder_ + "/universal"; }
  std::string plain() const { return folder_ + "/plain"; }

  static void write_rank(const std::string& path, bool states_shapes) {
    OutputFile file(path);
    TorchWriter writer(file, "mp_rank_00");
    PickleWriter& pickle = writer.pickle();
    pickle.begin_dict();
    pickle.text("iteration"), pickle.integer(2);
    pickle.text("module");
    pickle.begin_dict();
    for (const Param& param : params()) pickle.text(param.name), writer.tensor(StoredDType::f32, param.shape);
    pickle.end_dict();
    if (states_shapes) write_shapes(pickle);
    pickle.end_dict();
    for (const Param& param : params())
      writer.write_data(std::vector<std::byte>(whole_slice(param.shape).count() * sizeof(float)));
    writer.finish();
    file.close();
  }

 private:
  static void write_shapes(PickleWriter& pickle) {
    pickle.text("param_shapes");
    pickle.begin_list();
    pickle.begin_dict();
    for (const Param& param : params()) {
      pickle.text(param.name);
      pickle.begin_tuple();
      for (std::int64_t size : param.shape) pickle.integer(size);
      pickle.end_tuple();
    }
    pickle.end_dict();
    pickle.end_list();
  }

  std::string folder_ = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_deepspeed_fuzz.", ::getpid());
};

void read_checkpoint(const std::string& folder) {
  try {
    const DeepSpeedFiles files = list_deepspeed_files(folder);
    DeepSpeedModel model = read_deepspeed_model(files);
    read_parameters(model.parameters);
    const ShardedTraining training = read_deepspeed_training(model, files);
    if (training.optimizer) read_states(*training.optimizer);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SmallCheckpoints checkpoints;
  if (size == 0) return 0;
  const std::string rank = checkpoints.zero() + "/mp_rank_00_model_states.pt";
  const std::string optimizer = checkpoints.zero() + "/zero_pp_rank_0_mp_rank_00_optim_states.pt";
  if (data[0] % 4 == 0) {
    fs::remove(optimizer);
    write_bytes(rank, data + 1, size - 1);
    read_checkpoint(checkpoints.zero());
    SmallCheckpoints::write_rank(rank, true);
  } else if (data[0] % 4 == 1) {
    write_bytes(optimizer, data + 1, size - 1);
    read_checkpoint(checkpoints.zero());
  } else if (data[0] % 4 == 2) {
    const std::string merged = cat(checkpoints.universal(), "/zero/", params()[0].name, "/fp32.pt");
    write_bytes(merged, data + 1, size - 1);
    read_checkpoint(checkpoints.universal());
  } else {
    write_bytes(checkpoints.plain() + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", data + 1, size - 1);
    read_checkpoint(checkpoints.plain());
  }
  return 0;
}
