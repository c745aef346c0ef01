// Splits English text into sentences by rules.
//
// A sentence ends after a word that ends with one or more of . ? ! (closing quotes and brackets may follow), before
// whitespace or at the end of the text. But it does not end there if
// - the end character is quoted or in brackets and the next word starts with a lower-case letter: "Why?" she asked;
// - a full stop belongs to a title, to a reference before a number, or to a word such as "e.g.": Mr. Fox, Fig. 2;
// - a full stop belongs to another abbreviation (Inc., a.m., U.S., Ph.D., Jan., etc.) or to an initial (J. Fox), or is
//   one of multiple full stops (...), unless the next word is capitalized and often starts a sentence (The, He, But,
//   ...); after multiple full stops, any capitalized word is enough;
// - a full stop belongs to a number and the next word starts with a lower-case letter, or belongs to a number that
//   starts the sentence, as in a list: 1. First.
//
// If spaces separate multiple end characters (. . .), only the last one can end a sentence, under the conditions for
// multiple full stops. A blank line after an end character always ends the sentence; a line break alone never does.
//
// Megatron-LM uses Punkt, nltk's splitter. Punkt works similarly, but instead of lists it uses tables learned from
// newspaper text: abbreviations, word pairs that belong together across a full stop, and words that occur capitalized
// or in lower case. So the two splitters differ on abbreviations that only one of them knows, and on words that follow
// these. Punkt also ends a sentence before the ASCII marks ) " ; } ] * : @ ' ( { [ ! ?, where this splitter requires
// whitespace. Punkt does not know curly quotes, ends a sentence at ? and ! in quotes regardless of the next word, ends
// a sentence after the 1. in a list, and has no rule for blank lines. Megatron-LM first cuts text into parts of
// 1,000,000 characters, which ends a sentence at each cut; this splitter does not cut text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The supported languages: "english".
const std::vector<std::string>& sentence_languages();

/// What to do with whitespace between two sentences: drop it, or keep it at the end of the first sentence
/// (--keep-newlines).
enum class BetweenSentences { drop, keep };

/// Replaces the contents of `sentences` with the sentences in the text (UTF-8), in order, as views of the text.
/// Whitespace at the end of the text does not belong to any sentence; whitespace at the start belongs to the first one,
/// as in Punkt. Text that consists only of whitespace has no sentences.
void split_sentences(std::string_view text, BetweenSentences between, std::vector<std::string_view>& sentences);

}  // namespace mtl
