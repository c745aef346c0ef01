#include "ckpt/open_model.h"

#include "base/files.h"
#include "base/hub_cache.h"
#include "base/mapped_faults.h"
#include "ckpt/checkpoint.h"
#include "models/foreign_formats.h"

namespace mtl {

namespace {

void refuse_foreign(const std::string& path, ModelFormats formats) {
  const std::string what = describe_foreign_model(path, true, formats);
  if (!what.empty()) fail(Exit::bad_data, path, " ", what);
}

}  // namespace

std::string find_model(const std::string& name, Console& console, ModelFormats formats) {
  std::string path = resolve_hub_name(name);
  if (!file_exists(path)) fail_at(Exit::io, path, describe_missing_path(path));
  if (std::optional<std::string> model = find_model_in(path, console, formats)) {
    if (*model != path) warn_of_other_model(path, *model, console, formats);
    return *model;
  }
  if (!is_directory(path)) {
    refuse_foreign(path, formats);
    fail(Exit::bad_data, path, " is a file, but a model is a folder; use the folder that contains it");
  }
  if (std::optional<std::string> newest = newest_checkpoint(path, console)) return *newest;
  refuse_foreign(path, formats);
  fail(Exit::bad_data, path, " contains no model; use a folder that contains ", recognized_entries(formats),
       ", or folders iter_*, where mtl-train saves");
}

ModelSource open_model(const std::string& path, Console& console, const ModelSupplement& given, ModelFormats formats) {
  const std::string found = find_model(path, console, formats);
  const auto check_use = [&](bool is_used) {
    if (!given.hf_config.empty() && !is_used)
      fail_at(Exit::usage, "--hf-config " + given.hf_config, "has no use for the model in ", found,
              ", whose files state its configuration; remove the flag");
  };
  check_use(find_model_format(found, formats)->lacks_config);
  warn_of_other_model(found, found, console, formats);
  ModelSource source = read_mapped([&] {
    const ModelFormat& format = *find_model_format(found, formats);
    std::unique_ptr<TensorReader> reader = format.open(found, given, console);
    check_use(!reader->hf_config.is_null());
    reader->kind = format.kind;
    return ModelSource(std::move(reader));
  });
  const std::int64_t heads = source.config().num_heads;
  if (!given.may_differ && given.num_attention_heads.value_or(heads) != heads)
    fail_at(Exit::usage, cat("--num-attention-heads ", *given.num_attention_heads), "differs from the model in ", found,
            ", which has ", heads, " heads; remove the flag");
  return source;
}

}  // namespace mtl
