// Other programs' formats: those that mtl reads, one row each, and the marks of those that it does not read, with the
// remedy.
#pragma once

#include <string>
#include <vector>

#include "models/model_format.h"

namespace mtl {

/// Returns the rows of the formats that mtl reads, in the order in which a folder is compared with them.
ModelFormats foreign_formats();
/// True for the names that programs give to the checkpoint of one iteration.
bool is_iteration_name(const std::string& name, ModelFormats formats = foreign_formats());

struct ForeignModel {
  std::string what;    // "is a distributed Megatron-LM checkpoint (metadata.json)"; empty if not recognized
  std::string remedy;  // how to make it a model that mtl reads: "; convert it with ..."
};
/// Recognizes a program's model by the marks of all rows and programs in one of the names in a folder. Does not
/// recognize weights alone.
ForeignModel find_foreign_program(const std::string& folder, const std::vector<std::string>& names,
                                  ModelFormats formats = foreign_formats());
/// Recognizes a checkpoint of one of these programs, the folder that contains its iterations, and a
/// file or folder with the weights of a model alone. If `path` is what the user wants to load, looks for iterations in
/// all folders whose names end in a number; otherwise, such folders may be anything.
ForeignModel find_foreign_model(const std::string& path, bool is_loaded = false,
                                ModelFormats formats = foreign_formats());
/// Returns what find_foreign_model() finds together with its remedy, or "".
std::string describe_foreign_model(const std::string& path, bool is_loaded = false,
                                   ModelFormats formats = foreign_formats());

}  // namespace mtl
