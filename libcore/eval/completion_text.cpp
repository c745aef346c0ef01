#include "eval/completion_text.h"

#include <algorithm>
#include <utility>

namespace mtl {

std::string CompletionText::push(std::int32_t id) {
  const std::int32_t previous = std::exchange(previous_, id);
  const std::int64_t known = tokenizer_.vocab_size();
  if (std::ranges::find(stops_, id) != stops_.end()) return "";
  if (id >= known) return text_.push(kReplacementCharacter);
  if (previous >= known) return text_.push(tokenizer_.decode({&id, 1}));
  const std::int32_t pair[] = {previous, id};
  return text_.push(tokenizer_.decode(pair).substr(tokenizer_.decode({&previous, 1}).size()));
}

}  // namespace mtl
