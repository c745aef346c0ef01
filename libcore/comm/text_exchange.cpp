#include "comm/text_exchange.h"

#include <algorithm>

namespace mtl {

namespace {

Tensor bytes_of(std::string& text, std::size_t bytes) {
  return {text.data(), DType::u8, {static_cast<std::int64_t>(bytes)}};
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& group, const std::string& text) {
  Stream stream(Device::cpu);  // text is in host memory
  std::vector<std::int64_t> sizes(group.size());
  std::int64_t size = std::ssize(text);
  group.all_gather(stream, Tensor(sizes.data(), DType::i64, {group.size()}), Tensor(&size, DType::i64, {1})).join();

  // An all-gather needs parts of equal size, so pad every text to the longest.
  std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = text, all(longest * sizes.size(), '\0');
  padded.resize(longest);
  group.all_gather(stream, bytes_of(all, all.size()), bytes_of(padded, longest)).join();
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < sizes.size(); ++r) texts.push_back(all.substr(r * longest, sizes[r]));
  return texts;
}

std::string broadcast_text(Communicator& group, std::string text, int root) {
  Stream stream(Device::cpu);
  std::int64_t size = std::ssize(text);
  group.broadcast(stream, Tensor(&size, DType::i64, {1}), root).join();
  text.resize(size);
  group.broadcast(stream, bytes_of(text, text.size()), root).join();
  return text;
}

}  // namespace mtl
