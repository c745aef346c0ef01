// The samples of GPT pre-training: S input tokens and S labels, shifted by one, cut from shuffled documents in the
// order of data/sample_order.h. Every item equals that of Megatron-LM's GPTDataset.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/sample_order.h"
#include "data/split.h"

namespace mtl {

struct GptDatasetOptions {
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;
  OrderKind order = OrderKind::megatron;
  SplitRange range{0, 0};                 // of the sequences
  std::optional<std::int64_t> samples{};  // at least this many; empty: one epoch
  bool drop_last_partial = true;          // as SampleOrderOptions'; false: the last sample is padded
  std::int32_t eod = -1;                  // the end-of-document id; -1: none
  std::int32_t pad = -1;                  // the padding id; -1, or equal to eod: none
  std::int64_t vocab_size = 0;            // item() refuses ids that are not below it, except pad; 0: no check
  bool eod_mask_loss = false;             // no loss where the input is eod
  bool reset_position_ids = false;        // positions count from 0 again after an eod
  bool reset_attention_mask = false;      // tokens after an eod do not attend to tokens before it
};

/// One sample. S entries each.
struct Sample {
  std::vector<std::int32_t> tokens, labels;  // padding is 0 in both
  std::vector<float> loss_mask;              // 0 for padding labels, and for eod inputs with eod_mask_loss; else 1
  std::vector<std::int32_t> position_ids;
  /// With reset_attention_mask: the first position that each position may attend to (an eod belongs to the document it
  /// ends). Empty otherwise.
  std::vector<std::int32_t> document_start;
};

/// The origin of the tokens of one item.
struct SampleSource {
  std::int64_t dataset = 0;             // index in the blend
  std::int64_t sample = 0;              // shuffle_index[index] (data/sample_order.h)
  std::vector<std::int64_t> documents;  // indices of sequences in the .idx
  std::int64_t first_offset = 0;        // of the first token, in the first of these documents
  std::int64_t last_offset = 0;         // of the last label, in the last of these documents
};

class GptDataset {
 public:
  /// Throws as SampleOrder does, and Error(bad_data) for multimodal data.
  GptDataset(std::shared_ptr<const IndexedDataset> data, const GptDatasetOptions& options);

  /// Number of samples, at least those requested.
  std::int64_t size() const { return order_.samples(); }
  /// `index` is in the order of training, in [0, size()). Throws Error(bad_data) for an id outside the vocabulary.
  Sample item(std::int64_t index) const;
  SampleSource describe(std::int64_t index) const;
  /// The S + 1 stored ids. A last, partial sample has fewer.
  std::vector<std::int32_t> read_tokens(std::int64_t index) const;
  /// Asks the system to read an item's tokens ahead; returns at once.
  void prefetch(std::int64_t index) const;

  const SampleOrder& order() const { return order_; }
  /// The name in messages: the prefix of its files.
  const std::string& name() const { return data_->prefix(); }

 private:
  void check_ids(const std::vector<std::int32_t>& ids, std::int64_t index) const;

  std::shared_ptr<const IndexedDataset> data_;
  GptDatasetOptions options_;
  SampleOrder order_;
};

}  // namespace mtl
