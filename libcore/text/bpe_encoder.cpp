#include "text/bpe_encoder.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "text/pretoken_cache.h"
#include "text/pretoken_table.h"
#include "text/pretokenizer.h"

namespace mtl {

namespace {

class BpeEncoder : public Encoder {
 public:
  BpeEncoder(const BpeModel& model, EncoderMemory memory, std::unique_ptr<Splitter> splitter)
      : model_(model),
        splitter_(std::move(splitter)),
        tables_(memory == EncoderMemory::large ? model.pretoken_tables() : std::make_shared<PretokenTables>(6)),
        table_(tables_->current()),
        long_parts_(memory == EncoderMemory::large ? 12 : 2) {}

  void append(std::string_view text, std::vector<std::int32_t>& ids) override {
    text_end_ = text.data() + text.size();
    if (table_->is_exhausted()) table_ = tables_->replace(table_);
    if (splitter_) splitter_->start(text);
    count_ = 0;  // an exception may have left parts of an earlier text
    while (!text.empty()) {
      std::size_t count = splitter_ ? splitter_->next(ends_) : split_pretokens(text, ends_);
      const char* pretoken = text.data();
      for (std::size_t i = 0; i < count; pretoken = ends_[i++]) add_pretoken(pretoken, ends_[i], ids);
      text.remove_prefix(pretoken - text.data());
    }
    append_parts(ids);
  }

 private:
  using Set = PretokenTable::Set;
  static constexpr std::size_t kBatch = 512;
  static constexpr std::size_t kTokens = Pretoken::kMaxTokens;

  /// A part of a pre-token that is encoded separately.
  struct Part {
    PretokenKey key;  // for a short part; for a long one, key.low is its length
    Set* set;         // the table's set for the key; null for a long part
    const char* at;
  };

  void add_pretoken(const char* begin, const char* end, std::vector<std::int32_t>& ids) {
    std::size_t length = end - begin;
    if (length <= PretokenKey::kMaxBytes) [[likely]] {
      PretokenKey key = PretokenKey::of(begin, length, text_end_ - begin >= 16);
      if (key.is_ascii()) [[likely]]
        return add_part(key, &table_->set_of(key), begin, ids);
    }
    // Cuts the pre-token before non-ASCII characters that no merge can cross. (Merges can cross the boundary between
    // nearly any two ASCII characters.) Does not cut if entire pre-tokens may be tokens, because a part could be
    // mistaken for one.
    for (const char* at = begin + 1; at < end && !model_.has_whole_pretokens(); ++at) {
      bool begins_character = byte_of(*at) >= 0xC0;
      if (!begins_character || model_.may_merge(at[-1], *at)) continue;
      add_part(begin, at, ids);
      begin = at;
    }
    add_part(begin, end, ids);
  }

  void add_part(const char* at, const char* end, std::vector<std::int32_t>& ids) {
    std::size_t length = end - at;
    if (length > PretokenKey::kMaxBytes) return add_part({length, 0}, nullptr, at, ids);
    PretokenKey key = PretokenKey::of(at, length, text_end_ - at >= 16);
    add_part(key, &table_->set_of(key), at, ids);
  }

  /// Queues a part and prefetches its set. When the batch is full, looks up all its parts; by then, the cache lines
  /// have arrived.
  void add_part(PretokenKey key, Set* set, const char* at, std::vector<std::int32_t>& ids) {
    __builtin_prefetch(set);
    parts_[count_++] = {key, set, at};
    if (count_ == kBatch) append_parts(ids);
  }

  void append_parts(std::vector<std::int32_t>& ids) {
    std::int32_t* out = batch_;
    for (std::size_t i = 0; i < count_; ++i) {
      const Part& part = parts_[i];
      const Pretoken* entry = part.set == nullptr ? nullptr : part.set->find(part.key);
      if (entry != nullptr && entry->holds_tokens()) [[likely]] {
        std::memcpy(out, entry->values(), kTokens * sizeof(std::int32_t));  // cheaper than a loop
        out += entry->count();
        continue;
      }
      encode_part(part, entry);
      if (tokens_.size() > kTokens) {
        ids.insert(ids.end(), batch_, out);
        ids.insert(ids.end(), tokens_.begin(), tokens_.end());
        out = batch_;
      } else {
        out = std::copy(tokens_.begin(), tokens_.end(), out);
      }
    }
    ids.insert(ids.end(), batch_, out);
    count_ = 0;
  }

  /// Encodes a part into tokens_ and adds it to the table. `entry` is the part's entry in its set, or null.
  void encode_part(const Part& part, const Pretoken* entry) {
    tokens_.clear();
    if (part.set == nullptr) return encode_long_part({part.at, part.key.low});
    if (entry == nullptr) entry = table_->find_displaced(*part.set, part.key);
    if (entry != nullptr) {
      const std::span<const std::int32_t> known = table_->tokens_of(*entry);
      return tokens_.assign(known.begin(), known.end());
    }
    model_.encode_pretoken({part.at, part.key.length()}, scratch_, tokens_);
    table_->add(*part.set, part.key, tokens_);
  }

  void encode_long_part(std::string_view part) {
    if (long_parts_.find(part, tokens_)) return;
    model_.encode_pretoken(part, scratch_, tokens_);
    long_parts_.put(part, tokens_);
  }

  const BpeModel& model_;
  std::unique_ptr<Splitter> splitter_;  // null: GPT-2's pattern
  std::shared_ptr<PretokenTables> tables_;
  std::shared_ptr<PretokenTable> table_;
  LongPretokenCache long_parts_;
  MergeScratch scratch_;
  std::vector<std::int32_t> tokens_;
  const char* text_end_ = nullptr;
  const char* ends_[kBatch];
  Part parts_[kBatch];
  std::size_t count_ = 0;                 // of parts_
  std::int32_t batch_[kBatch * kTokens];  // ids of the current batch
};

}  // namespace

std::unique_ptr<Encoder> make_bpe_encoder(const BpeModel& model, EncoderMemory memory,
                                          std::unique_ptr<Splitter> splitter) {
  return std::make_unique<BpeEncoder>(model, memory, std::move(splitter));
}

}  // namespace mtl
