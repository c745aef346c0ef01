// Recognizes other programs' models by their file names, so that error messages can give the format and the remedy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// True for the path or name of a file with DeepSpeed's naming: ..._model_states.pt, ..._optim_states.pt.
bool is_deepspeed_file(std::string_view path);
/// True for the path or name of a file in which Megatron-LM's distributed optimizer saves its state.
bool is_optimizer_file(std::string_view path);
/// True for the names that programs give to the checkpoint of one iteration: Megatron-LM, DeepSpeed, torchtitan, NeMo.
bool is_iteration_name(const std::string& name);

struct ForeignModel {
  std::string what;    // "is a distributed Megatron-LM checkpoint (metadata.json)"; empty if not recognized
  std::string remedy;  // how to make it a model that mtl reads: "; convert it with ..."
};
/// Recognizes a program's model by one of the names in a folder, and llm.c's by the first bytes of a file. Does not
/// recognize weights alone.
ForeignModel find_foreign_program(const std::string& folder, const std::vector<std::string>& names);
/// Recognizes a checkpoint of a program in foreign_model.cpp's table, the folder that contains its iterations, and a
/// file or folder with the weights of a model alone. If `path` is what the user wants to load, looks for iterations in
/// all folders whose names end in a number; otherwise, such folders may be anything.
ForeignModel find_foreign_model(const std::string& path, bool is_loaded = false);
/// Returns what find_foreign_model() finds together with its remedy, or "".
std::string describe_foreign_model(const std::string& path, bool is_loaded = false);

}  // namespace mtl
