# Paragraphs to JSON lines {"text": ...}: 32 paragraphs (speeches), or -v speeches=N, make a document. Every 20th document
# goes to the file named by -v heldout=FILE.
function flush() {
  if (text == "") return
  line = "{\"text\": \"" text "\"}"
  if (++documents % 20 == 0) print line > heldout
  else print line
  text = ""
}
BEGIN { RS = ""; ORS = "\n"; if (!speeches) speeches = 32 }
{
  gsub(/\\/, "&&")
  gsub(/"/, "\\\"")
  gsub(/\t/, "\\t")
  gsub(/\n/, "\\n")
  text = text (text == "" ? "" : "\\n\\n") $0
  if (NR % speeches == 0) flush()
}
END { flush() }
