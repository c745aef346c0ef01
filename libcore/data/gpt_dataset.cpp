#include "data/gpt_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace mtl {
namespace {

/// Sets the loss mask, positions and document starts from the input tokens. Must be called before clear_padding().
void mark_documents(const GptDatasetOptions& options, Sample& sample) {
  const std::size_t length = sample.tokens.size();
  sample.loss_mask.assign(length, 1.0f);
  sample.position_ids.resize(length);
  if (options.reset_attention_mask) sample.document_start.resize(length);
  std::size_t start = 0;
  for (std::size_t i = 0; i < length; ++i) {
    sample.position_ids[i] = static_cast<std::int32_t>(options.reset_position_ids ? i - start : i);
    if (options.reset_attention_mask) sample.document_start[i] = static_cast<std::int32_t>(start);
    if (sample.tokens[i] != options.eod) continue;
    if (options.eod_mask_loss) sample.loss_mask[i] = 0.0f;
    start = i + 1;  // the eod belongs to the document it ends
  }
}

/// Masks the loss for padding, and replaces the padding id with 0, which is a valid row in every token embedding.
void clear_padding(std::int32_t pad, Sample& sample) {
  for (std::size_t i = 0; i < sample.labels.size(); ++i) {
    if (sample.labels[i] == pad) sample.loss_mask[i] = 0.0f;
  }
  std::ranges::replace(sample.tokens, pad, 0);
  std::ranges::replace(sample.labels, pad, 0);
}

/// Calls use(sequence, begin, end) for each sequence that contributes tokens to an item: `begin` to `end` - 1.
template <class Use>
void for_each_run(const TokenData& data, const SampleSource& source, const Use& use) {
  for (std::size_t i = 0; i < source.documents.size(); ++i) {
    const std::int64_t sequence = source.documents[i];
    const bool is_last = i + 1 == source.documents.size();
    use(sequence, i == 0 ? source.first_offset : 0, is_last ? source.last_offset + 1 : data.lengths()[sequence]);
  }
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const TokenData> data, const GptDatasetOptions& options)
    : data_(std::move(data)), options_(options) {
  if (data_->is_multimodal())
    fail(Exit::bad_data, data_->name(),
         " contains multimodal data, which mtl cannot train on; use token files without modes");
  // If the padding id equals eod, do not mask the loss for eod labels.
  if (options_.pad == options_.eod) options_.pad = -1;
  options_.order.name = data_->name();
  order_ = SampleOrder(data_->lengths(), options_.order);
}

SampleSource GptDataset::describe(std::int64_t index) const {
  SampleSource source;
  source.sample = order_.shuffled(index);
  const TokenLocation first = order_.first_token(source.sample), last = order_.last_token(source.sample);
  for (std::int64_t position = first.position; position <= last.position; ++position)
    source.documents.push_back(order_.sequence_at(position));
  source.first_offset = first.offset;
  source.last_offset = last.offset;
  return source;
}

void GptDataset::prefetch(std::int64_t index) const {
  for_each_run(*data_, describe(index), [&](std::int64_t sequence, std::int64_t begin, std::int64_t end) {
    data_->prefetch(sequence, begin, end - begin);
  });
}

std::vector<std::int32_t> GptDataset::read_tokens(std::int64_t index) const {
  data_->check_sizes();
  std::vector<std::int32_t> ids;
  ids.reserve(options_.order.seq_length + 1);
  for_each_run(*data_, describe(index), [&](std::int64_t sequence, std::int64_t begin, std::int64_t end) {
    const std::size_t old_size = ids.size();
    ids.resize(old_size + (end - begin));
    data_->read(sequence, begin, std::span(ids).subspan(old_size));
  });
  return ids;
}

void GptDataset::check_ids(const std::vector<std::int32_t>& ids, std::int64_t index) const {
  for (const std::int32_t id : ids) {
    if (id >= 0 && (id < options_.vocab_size || id == options_.pad)) continue;
    fail(Exit::bad_data, data_->name(), ": the token id ", id, ", in sequences ", describe(index).documents.front(),
         " and following, is not in the vocabulary of ", options_.vocab_size,
         "; select the tokenizer that made the data, or extend the loaded model with --new-token-rows");
  }
}

Sample GptDataset::item(std::int64_t index) const {
  std::vector<std::int32_t> ids = read_tokens(index);
  if (options_.vocab_size > 0) check_ids(ids, index);
  ids.resize(options_.order.seq_length + 1, options_.pad);
  Sample sample;
  sample.tokens.assign(ids.begin(), ids.end() - 1);
  sample.labels.assign(ids.begin() + 1, ids.end());
  mark_documents(options_, sample);
  clear_padding(options_.pad, sample);
  return sample;
}

}  // namespace mtl
