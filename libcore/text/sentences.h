// Finds the ends of sentences of English text by rules.
//
// A sentence ends after a word that ends with one or more of . ? ! (closing quotes and brackets may follow), before
// white space or at the end of the text. It is not an end when
//   - the end character is quoted or in brackets and the next word begins with a small letter: "Why?" she asked;
//   - a full stop belongs to a title, to a reference before a number, or to a word such as "e.g.": Mr. Fox, Fig. 2;
//   - it belongs to another abbreviation (Inc., a.m., U.S., Ph.D., Jan., etc.), to an initial (J. Fox), or it is one of
//     several (...): then the sentence ends only when the next word begins with a capital and is one that often begins
//     a sentence (The, He, But, ...), or, for several full stops, begins with any capital;
//   - it belongs to a number and the next word begins with a small letter, or to a number that begins the sentence and
//     is the item of a list: 1. First.
// Only the last of several end characters with blanks between them (. . .) can end one, as with several full stops.
// A blank line after an end character always ends the sentence; a line break alone never does.
//
// Punkt, nltk's splitter, which Megatron-LM uses, has the same shape, with tables learned from a newspaper where this
// has lists: its abbreviations, the pairs of words that belong together across a full stop, and the words seen in
// capitals and small letters. So the two differ on abbreviations that only one knows and on what follows them.
// Further: punkt ends a sentence before white space only, or before one of the ASCII marks ) " ; } ] * : @ ' ( { [ ! ?,
// where this wants white space; it does not know curly quotes; it ends one at ? and ! in quotes whatever follows, and
// after the 1. of a list; it has no rule for blank lines. Megatron-LM cuts texts into pieces of 1,000,000 characters
// first, which ends a sentence at each cut; here a text is one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// "english"
const std::vector<std::string>& sentence_languages();

/// The treatment of white space between two sentences: dropped, or kept at the end of the first one (--keep-newlines).
enum class BetweenSentences { drop, keep };

/// Replaces `sentences` by the sentences of a text (UTF-8): views of it, in order. White space at the end of the text
/// belongs to none; that before the first sentence is part of it, as with punkt. A text of white space has none.
void split_sentences(std::string_view text, BetweenSentences between, std::vector<std::string_view>& sentences);

}  // namespace mtl
