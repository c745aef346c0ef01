// Splits English text into sentences by rules.
//
// A sentence ends after a word that ends with one or more of . ? ! (closing quotes and brackets may follow), before
// whitespace or at the end of the text. It does not end there when
//   - the end character is quoted or in brackets and the next word begins with a lower-case letter: "Why?" she asked;
//   - a full stop belongs to a title, to a reference before a number, or to a word such as "e.g.": Mr. Fox, Fig. 2;
//   - it belongs to another abbreviation (Inc., a.m., U.S., Ph.D., Jan., etc.), to an initial (J. Fox), or it is one of
//     several (...): then the sentence ends only when the next word begins with a capital and is one that often begins
//     a sentence (The, He, But, ...), or, for several full stops, begins with any capital;
//   - it belongs to a number and the next word begins with a lower-case letter, or to a number that begins the
//     sentence, as in a list: 1. First.
// Only the last of several end characters separated by spaces (. . .) can end a sentence, as with several full stops.
// A blank line after an end character always ends the sentence; a line break alone never does.
//
// Punkt, nltk's splitter, which Megatron-LM uses, works similarly, but with tables learned from a newspaper instead of
// lists: abbreviations, pairs of words that belong together across a full stop, and words seen capitalized or in lower
// case. So the two differ on abbreviations that only one knows and on what follows them. Punkt also ends a sentence
// before the ASCII marks ) " ; } ] * : @ ' ( { [ ! ?, where this splitter requires whitespace; does not know curly
// quotes; ends a sentence at ? and ! in quotes whatever follows, and after the 1. of a list; and has no rule for blank
// lines. Megatron-LM first cuts texts into pieces of 1,000,000 characters, which ends a sentence at each cut; this
// splitter does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The supported languages: "english".
const std::vector<std::string>& sentence_languages();

/// The treatment of whitespace between two sentences: dropped, or kept at the end of the first one (--keep-newlines).
enum class BetweenSentences { drop, keep };

/// Replaces `sentences` by the sentences of a text (UTF-8): views of it, in order. Whitespace at the end of the text
/// belongs to none; the first sentence includes whitespace before it, as with punkt. A text of whitespace has none.
void split_sentences(std::string_view text, BetweenSentences between, std::vector<std::string_view>& sentences);

}  // namespace mtl
