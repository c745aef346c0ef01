// Splits English text into sentences by rules.
//
// A sentence ends after a word that ends with one or more of . ? ! (closing quotes and brackets may follow), before
// whitespace or at the end of the text. The sentence does not end there if
//   - the end character is quoted or in brackets and the next word begins with a lower-case letter: "Why?" she asked;
//   - a full stop belongs to a title, to a reference before a number, or to a word such as "e.g.": Mr. Fox, Fig. 2;
//   - a full stop belongs to another abbreviation (Inc., a.m., U.S., Ph.D., Jan., etc.) or to an initial (J. Fox), or
//     is one of several full stops (...), unless the next word is capitalized and often begins a sentence (The, He,
//     But, ...); after several full stops, any capitalized word suffices;
//   - a full stop belongs to a number and the next word begins with a lower-case letter, or belongs to a number that
//     begins the sentence, as in a list: 1. First.
// Of several end characters that are separated by spaces (. . .), only the last one can end a sentence, under the
// conditions for several full stops. A blank line after an end character always ends the sentence; a line break alone
// never does.
//
// Megatron-LM uses Punkt, the splitter of nltk. Punkt works similarly, but uses tables that were learned from a
// newspaper instead of lists: abbreviations, pairs of words that belong together across a full stop, and words that
// occur capitalized or in lower case. The two splitters therefore differ on abbreviations that only one of them knows,
// and on the words that follow these abbreviations. Punkt also ends a sentence before the ASCII marks ) " ; } ] * : @ '
// ( { [ ! ?, where this splitter requires whitespace. Punkt does not know curly quotes, ends a sentence at ? and ! in
// quotes regardless of the following word, ends a sentence after the 1. of a list, and has no rule for blank lines.
// Megatron-LM first cuts texts into pieces of 1,000,000 characters, which ends a sentence at each cut; this splitter
// does not cut texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The supported languages: "english".
const std::vector<std::string>& sentence_languages();

/// The treatment of whitespace between two sentences: dropped, or kept at the end of the first sentence
/// (--keep-newlines).
enum class BetweenSentences { drop, keep };

/// Replaces the content of `sentences` by the sentences of a text (UTF-8), in order. The sentences are views of the
/// text. Whitespace at the end of the text belongs to no sentence; whitespace at the start belongs to the first
/// sentence, as in Punkt. A text that consists of whitespace has no sentences.
void split_sentences(std::string_view text, BetweenSentences between, std::vector<std::string_view>& sentences);

}  // namespace mtl
