#include "models/hf_weights.h"

#include <map>

#include "base/count_of.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "formats/folder_entries.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "models/foreign_formats.h"

namespace mtl {

namespace {

std::unique_ptr<TensorFile> open_safetensors(const std::string& path) {
  return std::make_unique<SafetensorsFile>(path);
}

std::unique_ptr<TensorFile> open_torch(const std::string& path) {
  auto file = std::make_unique<TorchFile>(path);
  file->select_state_dict();
  return file;
}

struct Format {
  const char* single;
  const char* index;
  std::unique_ptr<TensorFile> (*open)(const std::string& path);
};

constexpr Format kFormats[] = {{"model.safetensors", "model.safetensors.index.json", open_safetensors},
                               {"pytorch_model.bin", "pytorch_model.bin.index.json", open_torch}};

using NamesByFile = std::map<std::string, std::vector<std::string>>;

/// Reads an index. Rejects file names that lead out of the folder or start with a dot.
NamesByFile read_weight_map(const std::string& path) {
  const Json index = Json::read(path);
  NamesByFile names;
  const auto read_names = [&] {
    for (const auto& [tensor, file] : index.at("weight_map").as_object()) names[file.as_string()].push_back(tensor);
  };
  with_prefix(read_names, path, ": ");
  for (const auto& [name, tensors] : names) {
    if (!is_plain_name(name) || name[0] == '.')
      fail(Exit::bad_data, path, ": weight_map lists ", Json(name).dump(),
           ", which is not the name of a file in this folder; download the index again");
  }
  return names;
}

std::vector<std::unique_ptr<TensorFile>> open_shards(const std::string& folder, const Format& format) {
  std::vector<std::unique_ptr<TensorFile>> files;
  for (const auto& [name, tensors] : read_weight_map(cat(folder, "/", format.index))) {
    const std::string path = cat(folder, "/", name);
    if (!file_exists(path))
      fail(Exit::bad_data, path, " is missing, although ", format.index, " lists ", count_of(tensors.size(), "tensor"),
           " in it, such as '", tensors[0], "'; download it again");
    files.push_back(format.open(path));
    for (const std::string& tensor : tensors) {
      if (files.back()->find(tensor) == nullptr)
        refuse_tensor(path, tensor, "is missing, although ", format.index,
                      " lists it in this file; download both again");
    }
  }
  return files;
}

}  // namespace

std::vector<std::unique_ptr<TensorFile>> open_hf_weights(const std::string& folder) {
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    if (const std::string path = cat(folder, "/", format.single); file_exists(path)) {
      std::vector<std::unique_ptr<TensorFile>> files;
      files.push_back(format.open(path));
      return files;
    }
    if (file_exists(cat(folder, "/", format.index))) return open_shards(folder, format);
    names.insert(names.end(), {format.single, format.index});
  }
  const ForeignModel other = find_foreign_program(folder, names_in_folder(folder));
  if (!other.what.empty())
    fail(Exit::bad_data, folder, " has a config.json, but no weights of transformers; it ", other.what, other.remedy);
  fail(Exit::bad_data, folder, " has no weights; add one of the files ", join(names, ", "));
}

std::string find_hf_weights(const std::string& folder) {
  for (const Format& format : kFormats) {
    for (const char* name : {format.single, format.index}) {
      if (file_exists(cat(folder, "/", name))) return name;
    }
  }
  return "";
}

}  // namespace mtl
