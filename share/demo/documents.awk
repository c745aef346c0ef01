# Text to JSON lines {"text": ...}: 32 paragraphs (speeches), or -v speeches=N, make a document; lines that are empty or
# blank separate paragraphs. Of 20 documents, or of all if there are fewer, the last goes to the file named by
# -v heldout=FILE.
function end_paragraph() {
  if (paragraph == "") return
  text = text (text == "" ? "" : "\\n\\n") paragraph
  paragraph = ""
  if (++paragraphs % speeches == 0) end_document()
}
function end_document() {
  if (text == "") return
  if (++documents % 20 == 0) hold_out(text)
  else {
    if (previous != "") print_document(previous)
    previous = text
  }
  text = ""
}
function print_document(text) { print "{\"text\": \"" text "\"}" }
function hold_out(text) {
  ++held
  print "{\"text\": \"" text "\"}" > heldout
}
BEGIN {
  if (!speeches) speeches = 32
  for (i = 1; i < 32; ++i) control[sprintf("%c", i)] = sprintf("\\u%04x", i)
}
/^[ \t\r\f]*$/ { end_paragraph(); next }
{
  sub(/\r$/, "")
  gsub(/\\/, "&&")
  gsub(/"/, "\\\"")
  gsub(/\t/, "\\t")
  if ($0 ~ /[\001-\037]/) for (c in control) gsub(c, "\\" control[c])
  paragraph = paragraph (paragraph == "" ? "" : "\\n") $0
}
END {
  end_paragraph()
  end_document()
  if (previous != "") {
    if (held || documents == 1) print_document(previous)
    else hold_out(previous)
  }
  print documents + 0 " documents, of which " held + 0 " held out" > "/dev/stderr"
  if (documents < 20) print "fewer than 20 documents: a document has " speeches " paragraphs; a smaller number, -v speeches=N, makes more of them" > "/dev/stderr"
}
