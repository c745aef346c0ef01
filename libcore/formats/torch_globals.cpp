#include "formats/torch_globals.h"

#include <algorithm>
#include <iterator>

#include "base/str.h"

namespace mtl {

namespace {

constexpr AllowedGlobal kAllowed[] = {
    {"torch._utils", "_rebuild_tensor", GlobalUse::function},
    {"torch._utils", "_rebuild_tensor_v2", GlobalUse::function},
    {"torch._utils", "_rebuild_tensor_v3", GlobalUse::function},
    {"torch._tensor", "_rebuild_from_type_v2", GlobalUse::function},
    {"torch._utils", "_rebuild_parameter", GlobalUse::function},
    {"torch._utils", "_rebuild_parameter_with_state", GlobalUse::function},
    {"torch.nn.parameter", "Parameter", GlobalUse::value},
    {"torch", "Tensor", GlobalUse::value},
    {"torch", "Size", GlobalUse::type},
    {"torch", "device", GlobalUse::type},
    {"torch.serialization", "_get_layout", GlobalUse::function},
    {"torch.storage", "UntypedStorage", GlobalUse::value},
    {"torch", "UntypedStorage", GlobalUse::value},
    {"collections", "OrderedDict", GlobalUse::dictionary},
    {"collections", "defaultdict", GlobalUse::dictionary},
    {"argparse", "Namespace", GlobalUse::type},
    {"signal", "Signals", GlobalUse::type},  // args.exit_signal
    {"types", "SimpleNamespace", GlobalUse::type},
    {"pathlib", "PosixPath", GlobalUse::type},
    {"pathlib", "PurePosixPath", GlobalUse::type},
    {"datetime", "timedelta", GlobalUse::type},
    {"datetime", "datetime", GlobalUse::type},
    {"_codecs", "encode", GlobalUse::function},
    {"_io", "BytesIO", GlobalUse::type},
    {"copyreg", "_reconstructor", GlobalUse::function},
    {"copy_reg", "_reconstructor", GlobalUse::function},
};

/// Types in Python's module `builtins`, called `__builtin__` in Python 2.
constexpr std::string_view kBuiltinTypes[] = {"set",   "frozenset", "bytearray", "complex", "slice", "range",
                                              "int",   "long",      "float",     "str",     "bool",  "list",
                                              "tuple", "dict",      "bytes",     "object"};

/// Globals in NumPy's modules. Since NumPy 2, numpy.core is called numpy._core.
constexpr AllowedGlobal kNumpy[] = {{"core.multiarray", "_reconstruct", GlobalUse::type},
                                    {"core.multiarray", "scalar", GlobalUse::type},
                                    {"core.numeric", "_frombuffer", GlobalUse::type},
                                    {"", "ndarray", GlobalUse::value},
                                    {"", "dtype", GlobalUse::type}};

struct TorchType {
  std::string_view storage, dtype;
  StoredDType stored;
};

constexpr TorchType kTorchTypes[] = {{"FloatStorage", "float32", StoredDType::f32},
                                     {"DoubleStorage", "float64", StoredDType::f64},
                                     {"HalfStorage", "float16", StoredDType::f16},
                                     {"BFloat16Storage", "bfloat16", StoredDType::bf16},
                                     {"LongStorage", "int64", StoredDType::i64},
                                     {"IntStorage", "int32", StoredDType::i32},
                                     {"ShortStorage", "int16", StoredDType::i16},
                                     {"CharStorage", "int8", StoredDType::i8},
                                     {"ByteStorage", "uint8", StoredDType::u8},
                                     {"BoolStorage", "bool", StoredDType::boolean},
                                     {"ComplexFloatStorage", "complex64", StoredDType::c64},
                                     {"", "uint16", StoredDType::u16},
                                     {"", "uint32", StoredDType::u32},
                                     {"", "uint64", StoredDType::u64},
                                     {"", "float8_e4m3fn", StoredDType::f8_e4m3},
                                     {"", "float8_e5m2", StoredDType::f8_e5m2}};

/// True for classes of Megatron-LM, DeepSpeed and GPT-NeoX's fork of it, such as the enumerations and loss scalers in a
/// run's arguments and state, and the addresses of parameters in partitions.
bool is_program_class(std::string_view module, std::string_view name) {
  if (module == "deepspeed.utils.tensor_fragment") return name == "fragment_address" || name == "tensor_fragment";
  const bool is_inside = module == "megatron" || starts_with(module, "megatron.") || starts_with(module, "deepspeed.");
  const bool is_class = !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
  return is_inside && is_class && name.find('.') == std::string_view::npos;
}

/// Returns a global's name without the module torch or torch.cuda, or "" for globals in other modules.
std::string_view name_in_torch(std::string_view global) {
  for (std::string_view module : {"torch.cuda.", "torch."}) {
    if (take_prefix(global, module)) return global;
  }
  return "";
}

/// Returns the dtype whose `member` names the global, or nullopt if there is none.
std::optional<StoredDType> dtype_named(std::string_view TorchType::*member, std::string_view global) {
  const std::string_view name = name_in_torch(global);
  for (const TorchType& type : kTorchTypes) {
    if (!name.empty() && type.*member == name) return type.stored;
  }
  return std::nullopt;
}

}  // namespace

std::optional<GlobalUse> find_global(std::span<const AllowedGlobal> table, std::string_view module,
                                     std::string_view name) {
  for (const AllowedGlobal& allowed : table) {
    if (allowed.module == module && allowed.name == name) return allowed.use;
  }
  return std::nullopt;
}

GlobalUse torch_global_use(std::string_view module, std::string_view name) {
  if (const auto use = find_global(kAllowed, module, name)) return *use;
  if (module == "builtins" || module == "__builtin__") {
    const bool is_type = std::ranges::find(kBuiltinTypes, name) != std::end(kBuiltinTypes);
    return is_type ? GlobalUse::type : GlobalUse::refused;
  }
  if (module == "numpy" || starts_with(module, "numpy.")) {
    std::string_view inner = module.substr(std::min<std::size_t>(module.size(), 6));
    if (starts_with(inner, "_core")) inner.remove_prefix(1);
    if (const auto use = find_global(kNumpy, inner, name)) return *use;
  }
  if (module == "torch" || module == "torch.cuda") {
    const std::string global = cat(module, ".", name);
    if (dtype_of_storage(global) || dtype_of_torch_global(global)) return GlobalUse::value;
  }
  return is_program_class(module, name) ? GlobalUse::type : GlobalUse::refused;
}

std::optional<StoredDType> dtype_of_storage(std::string_view global) {
  return dtype_named(&TorchType::storage, global);
}

std::optional<StoredDType> dtype_of_torch_global(std::string_view global) {
  return dtype_named(&TorchType::dtype, global);
}

std::string_view storage_class_of(StoredDType dtype) {
  return std::ranges::find(kTorchTypes, dtype, &TorchType::stored)->storage;
}

bool is_untyped_storage(std::string_view global) {
  return global == "torch.storage.UntypedStorage" || global == "torch.UntypedStorage";
}

}  // namespace mtl
