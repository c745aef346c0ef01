#include "text/token_bytes.h"

#include "base/error.h"

namespace mtl {

TokenBytes::TokenBytes(const BpeVocabulary& vocabulary) {
  std::vector<bool> is_special(vocabulary.tokens.size());
  for (std::int32_t id : vocabulary.special) is_special[id] = true;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
    add(is_special[id] ? std::string(vocabulary.tokens[id]) : token_bytes(vocabulary.tokens[id]));
}

void TokenBytes::add(std::string_view bytes) {
  bytes_ += bytes;
  begin_.push_back(bytes_.size());
}

std::string TokenBytes::decode(std::span<const std::int32_t> ids, const std::string& source) const {
  std::string out;
  for (std::int32_t id : ids) {
    std::size_t index = id;
    if (id < 0 || id >= size() || begin_[index] == begin_[index + 1])
      fail(Exit::bad_data, "token ", id, " is not in the vocabulary of ", source, " (", size(), " tokens)");
    out.append(bytes_, begin_[index], begin_[index + 1] - begin_[index]);
  }
  return out;
}

}  // namespace mtl
