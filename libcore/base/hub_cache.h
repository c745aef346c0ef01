// Names of models on the Hugging Face hub, such as "Qwen/Qwen2.5-0.5B", where a program expects a path. mtl never
// downloads anything; it finds what hf download or transformers has put into the hub's cache on this machine.
#pragma once

#include <string>

namespace mtl {

/// Returns `path` if it exists, or is not the name of a model in the cache. Otherwise returns the folder of the model's
/// main revision in the cache: CACHE/models--OWNER--NAME/snapshots/HASH, where HASH is in refs/main. CACHE is
/// $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub (with $XDG_CACHE_HOME
/// for ~/.cache). In these variables, ~ and $NAME are expanded.
std::string resolve_hub_name(const std::string& path);

/// Returns why `path`, which does not exist, cannot be read: "no such file or folder" and, if it looks like the name of
/// a model on the hub, how to get that model or how to write its name.
std::string describe_missing_path(const std::string& path);

}  // namespace mtl
