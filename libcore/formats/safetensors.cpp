#include "formats/safetensors.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "base/count_of.h"
#include "base/json.h"
#include "base/printable.h"

namespace mtl {

namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Parses a header's JSON. Error messages have the form "byte N: problem"; the caller adds the file name.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view header) : cursor_(header) {}

  /// Returns the remedy for the error that parse() has thrown.
  const char* remedy() const { return remedy_; }

  void parse(std::vector<StoredTensor>& tensors, std::map<std::string, std::string>& metadata) {
    bool has_metadata = false;
    cursor_.enter('{');
    while (cursor_.next_item('}')) {
      std::string name(text_of(cursor_.key()));
      if (name != "__metadata__") {
        tensors.push_back(parse_tensor(std::move(name)));
      } else if (std::exchange(has_metadata, true)) {
        cursor_.fail_here("__metadata__ is listed twice");
      } else {
        parse_metadata(metadata);
      }
    }
    cursor_.finish();
  }

 private:
  std::string_view text_of(std::string_view text) const {
    if (has_lone_surrogate(text)) cursor_.fail_here("a string contains half a surrogate pair");
    return text;
  }

  void parse_metadata(std::map<std::string, std::string>& metadata) {
    cursor_.enter('{');
    while (cursor_.next_item('}')) {
      std::string key(text_of(cursor_.key()));
      if (cursor_.peek() != '"') cursor_.fail_here(cat("__metadata__ '", key, "' is not a string"));
      if (!metadata.emplace(key, text_of(cursor_.string())).second) {
        cursor_.fail_here(cat("__metadata__ '", key, "' is listed twice"));
      }
    }
  }

  StoredTensor parse_tensor(std::string name) {
    std::optional<StoredDType> dtype;
    std::optional<std::vector<std::uint64_t>> shape, offsets;
    auto once = [&](bool seen, const char* field) {
      if (seen) cursor_.fail_here(cat("tensor '", name, "': ", field, " is listed twice"));
    };
    if (cursor_.peek() != '{') cursor_.fail_here(cat("tensor '", name, "' is not an object"));
    cursor_.enter('{');
    while (cursor_.next_item('}')) {
      std::string field(text_of(cursor_.key()));
      if (field == "dtype") {
        once(dtype.has_value(), "dtype");
        dtype = parse_dtype(name);
      } else if (field == "shape") {
        once(shape.has_value(), "shape");
        shape = parse_integers(name);
      } else if (field == "data_offsets") {
        once(offsets.has_value(), "data_offsets");
        offsets = parse_integers(name);
      } else {
        skip_value();
      }
    }
    if (!dtype || !shape || !offsets || offsets->size() != 2) {
      cursor_.fail_here(cat("tensor '", name, "' needs dtype, shape, and data_offsets of two numbers"));
    }
    return {std::move(name), *dtype, std::move(*shape), (*offsets)[0], (*offsets)[1]};
  }

  StoredDType parse_dtype(const std::string& name) {
    std::string_view text = cursor_.string();
    std::optional<StoredDType> dtype = parse_stored_dtype(text);
    if (!dtype) {
      remedy_ = "; save the tensor as float32, bfloat16 or float16";
      cursor_.fail_here(cat("tensor '", name, "': mtl does not know the dtype '", printable_text(text), "'"));
    }
    return *dtype;
  }

  std::vector<std::uint64_t> parse_integers(const std::string& name) {
    std::vector<std::uint64_t> out;
    cursor_.enter('[');
    while (cursor_.next_item(']')) {
      std::string_view text = cursor_.number();
      std::uint64_t value = 0;
      auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) {
        cursor_.fail_here(cat("tensor '", name, "': '", text, "' is not a size or offset"));
      }
      out.push_back(value);
    }
    return out;
  }

  /// Like JsonCursor::skip_value(), but rejects NaN and infinities, which Python accepts although they are not JSON.
  void skip_value() {
    switch (cursor_.peek()) {
      case '{':
        cursor_.enter('{');
        while (cursor_.next_item('}')) cursor_.key(), skip_value();
        break;
      case '[':
        cursor_.enter('[');
        while (cursor_.next_item(']')) skip_value();
        break;
      case 'N':
      case 'I':
        cursor_.fail_here("NaN and Infinity are not JSON");
      case '-':
        if (cursor_.number() == "-Infinity") cursor_.fail_here("-Infinity is not JSON");
        break;
      default:
        cursor_.skip_value();
    }
  }

  JsonCursor cursor_;
  const char* remedy_ = kDamagedRemedy;
};

/// Sorts the tensors by offset and checks that they fill [0, data_bytes) without gaps or overlaps.
void check_layout(const std::string& path, std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
  std::ranges::sort(tensors, [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const StoredTensor& tensor : tensors) {
    // Unchecked offsets have no commas, because they may not fit a signed number.
    auto refuse = [&](const auto&... what) { refuse_damaged(path, ": tensor '", tensor.name, "': ", what...); };
    if (tensor.begin != at) refuse("its data begin at ", tensor.begin, ", but the data before it end at ", at);
    if (tensor.end < tensor.begin) refuse("its data end at ", tensor.end, ", before they begin at ", tensor.begin);
    if (tensor.end > data_bytes)
      refuse("its data end at ", tensor.end, ", but the file has only ", count_of(data_bytes, "byte"), " of data");
    std::uint64_t bytes = 0;
    try {
      bytes = stored_bytes(tensor.dtype, tensor.shape);
    } catch (const Error& error) {
      refuse(error.what());
    }
    if (bytes != tensor.end - tensor.begin)
      refuse("its shape needs ", count_of(bytes, "byte"), ", but its data have ",
             with_commas(tensor.end - tensor.begin));
    at = tensor.end;
  }
  if (at != data_bytes) refuse_damaged(path, " has ", count_of(data_bytes - at, "byte"), " after the last tensor");
}

}  // namespace

std::uint64_t stored_bytes(StoredDType dtype, std::span<const std::uint64_t> shape) {
  // A size of 0 makes the tensor empty even if the other sizes overflow.
  if (std::ranges::find(shape, 0u) != shape.end()) return 0;
  auto bits = static_cast<std::uint64_t>(bits_of(dtype));
  for (std::uint64_t size : shape) {
    if (__builtin_mul_overflow(bits, size, &bits)) fail(Exit::bad_data, "the product of its shape exceeds 64 bits");
  }
  if (bits % 8 != 0) fail(Exit::bad_data, "its elements do not fill whole bytes");
  return bits / 8;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path) {
  std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < 8)
    refuse_damaged(path, " has ", count_of(bytes.size(), "byte"), ", too few for a safetensors file");
  const std::uint64_t length = from_little_endian(file_.text().substr(0, 8));
  if (length > kMaxHeaderBytes)
    fail(Exit::bad_data, path, " is not a safetensors file, because its first 8 bytes give the header ", length,
         " bytes (the limit is ", with_commas(kMaxHeaderBytes), "); download it again, or use another file");
  if (length > bytes.size() - 8)
    refuse_damaged(path, " has ", count_of(bytes.size(), "byte"), ", but its header alone needs ", with_commas(length));
  std::string_view header = file_.text().substr(8, length);
  if (header.empty() || header.front() != '{') refuse_damaged(path, ": the header does not begin with '{'");
  std::size_t invalid = find_invalid_utf8(header);
  if (invalid != std::string_view::npos) refuse_damaged(path, ": header byte ", invalid + 1, ": the text is not UTF-8");
  HeaderParser parser(header);
  std::vector<StoredTensor> tensors;
  try {
    parser.parse(tensors, metadata_);
  } catch (const Error& error) {
    fail(Exit::bad_data, path, ": header ", error.what(), parser.remedy());
  }
  data_begin_ = 8 + length;
  check_layout(path, tensors, bytes.size() - data_begin_);
  for (const StoredTensor& tensor : tensors) {
    if (!add(tensor)) refuse_damaged(path, ": tensor '", tensor.name, "' is listed twice");
  }
}

std::map<std::string, std::string> SafetensorsFile::aliases() const {
  std::map<std::string, std::string> out = metadata_;
  std::erase_if(out, [&](const auto& item) { return find(item.first) != nullptr || find(item.second) == nullptr; });
  return out;
}

std::span<const std::byte> SafetensorsFile::data(const StoredTensor& tensor) const {
  return file_.bytes().subspan(data_begin_ + tensor.begin, tensor.end - tensor.begin);
}

SafetensorsWriter::SafetensorsWriter(OutputFile& out, const std::vector<StoredTensor>& plan,
                                     const std::map<std::string, std::string>& metadata)
    : out_(out) {
  std::string header = "{";
  auto add_key = [&](const std::string& key) {
    if (header.size() > 1) header += ',';
    append_json_string(header, key);
    header += ':';
  };
  if (!metadata.empty()) {
    add_key("__metadata__");
    char separator = '{';
    for (const auto& [key, value] : metadata) {
      header += std::exchange(separator, ',');
      append_json_string(header, key);
      header += ':';
      append_json_string(header, value);
    }
    header += '}';
  }
  for (const StoredTensor& tensor : plan) {
    std::uint64_t end = expected_ + stored_bytes(tensor.dtype, tensor.shape);
    add_key(tensor.name);
    header += cat("{\"dtype\":\"", name_of(tensor.dtype), "\",\"shape\":[", join(tensor.shape, ",", cat<std::uint64_t>),
                  "],\"data_offsets\":[", expected_, ",", end, "]}");
    expected_ = end;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  require(header.size() <= kMaxHeaderBytes, out.path(), ": the header of ", count_of(plan.size(), "tensor"),
          " exceeds the limit of a safetensors file; use smaller files (mtl-convert: --max-shard-size)");
  out_.write(to_little_endian(header.size(), 8));
  out_.write(header);
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  out_.write(data.data(), data.size());
  written_ += data.size();
}

void SafetensorsWriter::finish() const {
  require(written_ == expected_, out_.path(), ": ", written_, " bytes of tensors written, ", expected_, " planned");
}

}  // namespace mtl
