#include "models/model_dropout.h"

#include "base/error.h"

namespace mtl {

double checked_dropout(const char* name, double value) {
  if (!(value >= 0 && value < 1)) fail(Exit::bad_data, name, " is ", value, "; it must be at least 0 and below 1");
  return value;
}

Json dropout_to_json(const ModelDropout& dropout) {
  return Json::object({{"hidden", dropout.hidden}, {"attention", dropout.attention}, {"embedding", dropout.embedding}});
}

ModelDropout dropout_from_json(const Json& json) {
  const auto read = [&](const char* name) {
    return checked_dropout(cat("dropout.", name).c_str(), json.at(name).as_number());
  };
  return {.hidden = read("hidden"), .attention = read("attention"), .embedding = read("embedding")};
}

}  // namespace mtl
