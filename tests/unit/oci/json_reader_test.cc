#include "oci/json_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace agentrun::oci {

struct Fruit {
  std::string name;
  std::uint16_t weight = 0;
};

static Result<void> from_json(const JsonReader& in, Fruit& fruit) {
  TRY(in.require("name", fruit.name));
  TRY(in.read("weight", fruit.weight));
  return ok();
}

struct Basket {
  std::vector<Fruit> fruits;
  std::map<std::string, Fruit> by_name;
  std::optional<std::int64_t> price;
  std::optional<bool> full;
  std::vector<std::uint8_t> days;
  std::map<std::string, std::string> labels;
};

static std::string no_upper_case(const std::string& value) {
  return value.find_first_of("ABC") == std::string::npos ? "" : "upper case";
}

static Result<void> from_json(const JsonReader& in, Basket& basket) {
  TRY(in.read("fruits", basket.fruits));
  TRY(in.read("byName", basket.by_name));
  TRY(in.read("price", basket.price));
  TRY(in.read("full", basket.full));
  TRY(in.read("days", basket.days, [](std::uint8_t day) { return day > 31 ? "no day" : ""; }));
  TRY(in.read_map("labels", basket.labels, no_upper_case));
  return ok();
}

namespace {

constexpr std::size_t kLimit = 16u << 20;

std::string message(std::string_view text, UnknownKeys unknown_keys = UnknownKeys::ignored) {
  const auto document = JsonDocument::parse(text, "it", kLimit, unknown_keys);
  if (document.has_error()) return document.error().message();
  Basket basket;
  const auto result = document->read(basket);
  return result.has_error() ? result.error().message() : "";
}

Basket basket_of(std::string_view text) {
  const auto document = JsonDocument::parse(text, "it", kLimit, UnknownKeys::ignored);
  Basket basket;
  EXPECT_TRUE(document.has_value() && document->read(basket).has_value()) << text;
  return basket;
}

TEST(JsonReader, ReadsNestedTypes) {
  const Basket basket = basket_of(
      R"({"fruits":[{"name":"fig","weight":65535},{"name":"p\u00e9ar"}],"byName":{"a":{"name":"apple"}},"price":-9223372036854775808,
         "full":false,"days":[1,31],"labels":{"k":"v"}})");
  ASSERT_EQ(basket.fruits.size(), 2u);
  EXPECT_EQ(basket.fruits[0].weight, 65535);
  EXPECT_EQ(basket.fruits[1].name,
            "p\xc3\xa9"
            "ar");
  EXPECT_EQ(basket.by_name.at("a").name, "apple");
  EXPECT_EQ(basket.price, INT64_MIN);
  EXPECT_EQ(basket.full, false);
  EXPECT_EQ(basket.days, (std::vector<std::uint8_t>{1, 31}));
  EXPECT_EQ(basket.labels.at("k"), "v");
}

TEST(JsonReader, TakesNullForAbsent) {
  const Basket basket = basket_of(R"({"fruits":null,"price":null,"labels":null})");
  EXPECT_TRUE(basket.fruits.empty());
  EXPECT_FALSE(basket.price.has_value());
  EXPECT_EQ(message(R"({"fruits":[{"name":null}]})"), "parse it /fruits/0/name: missing");
}

TEST(JsonReader, NamesThePlaceOfAnError) {
  EXPECT_EQ(message("[]"), "parse it: expected an object");
  EXPECT_EQ(message("7"), "parse it: expected an object");
  EXPECT_EQ(message(R"({"fruits":{}})"), "parse it /fruits: expected an array");
  EXPECT_EQ(message(R"({"fruits":[[]]})"), "parse it /fruits/0: expected an object");
  EXPECT_EQ(message(R"({"fruits":[{"name":"a"},{"name":1}]})"), "parse it /fruits/1/name: expected a string");
  EXPECT_EQ(message(R"({"fruits":[{"name":"a","weight":65536}]})"),
            "parse it /fruits/0/weight: expected an integer from 0 to 65535");
  EXPECT_EQ(message(R"({"byName":{"a/b~c":{"name":true}}})"), "parse it /byName/a~1b~0c/name: expected a string");
  EXPECT_EQ(message(R"({"full":"true"})"), "parse it /full: expected true or false");
  EXPECT_EQ(message(R"({"days":[1,32]})"), "parse it /days/1: no day");
  EXPECT_EQ(message(R"({"labels":{"a":"b","B":"c"}})"), "parse it /labels/B: upper case");
  EXPECT_EQ(message(R"({"labels":{"a":1}})"), "parse it /labels/a: expected a string");
}

TEST(JsonReader, CutsLongKeysInErrors) {
  const std::string text = message("{\"byName\":{\"" + std::string(1000000, 'x') + "\":1}}");
  EXPECT_LT(text.size(), 300u);
  EXPECT_NE(text.find("xxx...: expected an object"), std::string::npos);
}

TEST(JsonReader, ReadsIntegersExactly) {
  EXPECT_EQ(basket_of(R"({"price":9223372036854775807})").price, INT64_MAX);
  EXPECT_EQ(message(R"({"price":1.5})"), "parse it /price: expected an integer");
  EXPECT_EQ(message(R"({"price":1.0})"), "parse it /price: expected an integer");
  EXPECT_EQ(message(R"({"price":1e3})"), "parse it /price: expected an integer");
  EXPECT_EQ(message(R"({"price":"1"})"), "parse it /price: expected an integer");
  const std::string range = "parse it /price: expected an integer from -9223372036854775808 to 9223372036854775807";
  EXPECT_EQ(message(R"({"price":9223372036854775808})"), range);
  EXPECT_EQ(message(R"({"price":-9223372036854775809})"), range);
  EXPECT_EQ(message(R"({"price":123456789012345678901234567890})"), range);
  EXPECT_EQ(message(R"({"days":[-1]})"), "parse it /days/0: expected an integer from 0 to 255");
}

TEST(JsonReader, RefusesUnknownKeysWhereAsked) {
  const std::string text = R"({"price":1,"fruits":[{"name":"a","colour":"red"}]})";
  EXPECT_EQ(message(text), "");
  EXPECT_EQ(message(text, UnknownKeys::refused), "parse it /fruits/0/colour: unknown key");
  EXPECT_EQ(message(R"({"price":1,"prize":2})", UnknownKeys::refused), "parse it /prize: unknown key");
  EXPECT_EQ(message(R"({"byName":{"x":{"name":"a","y":1}}})", UnknownKeys::refused),
            "parse it /byName/x/y: unknown key");
  EXPECT_EQ(message(R"({"price":null,"labels":{"any":"thing"},"byName":{"x":{"name":"a"}}})", UnknownKeys::refused),
            "");
}

TEST(JsonReader, RefusesNul) {
  EXPECT_EQ(message(R"({"fruits":[{"name":"a\u0000b"}]})"), "parse it /fruits/0/name: a string with a NUL character");
  EXPECT_EQ(message(R"({"labels":{"a\u0000b":"c"}})"), "parse it /labels/a\\x00b: a name with a NUL character");
}

TEST(JsonDocument, RefusesTheSameKeyTwice) {
  EXPECT_EQ(message(R"({"price":1,"price":2})"), "parse it /price: the same key twice in one object");
  EXPECT_EQ(message(R"({"x":[0,{"a":1},{"b":{"c":1,"d":[],"c":1}}]})"),
            "parse it /x/2/b/c: the same key twice in one object");
  EXPECT_EQ(message(R"({"price":1,"pric\u0065":2})"), "parse it /price: the same key twice in one object");
  EXPECT_EQ(message(R"({"x":{"price":1},"price":2})"), "");
}

TEST(JsonDocument, SaysWhereTheTextIsWrong) {
  EXPECT_EQ(message(""), "parse it line 1, column 1: the text ends in the middle of a value");
  EXPECT_EQ(message("{\n  \"price\": 1,"), "parse it line 2, column 14: the text ends in the middle of a value");
  EXPECT_EQ(message("{}\n{}"), "parse it line 2, column 1: text after the end of the value");
  EXPECT_TRUE(message("{ invalid json }").starts_with("parse it line 1, column 3: not JSON: "));
  EXPECT_TRUE(message("{\"a\":\"\xff\"}").starts_with("parse it line 1, column 7: not JSON: "));
  EXPECT_NE(message("{\"price\":1,}"), "");
  EXPECT_NE(message("{\"price\":1 /* one */}"), "");
  EXPECT_NE(message("\xef\xbb\xbf{}"), "");
  EXPECT_NE(message("{'price':1}"), "");
  EXPECT_NE(message("{\"price\":NaN}"), "");
  EXPECT_NE(message("{\"price\":01}"), "");
}

TEST(JsonDocument, BoundsDepthSizeAndCount) {
  const auto nested = [](std::size_t depth) {
    return "{\"x\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(message(nested(64)), "");
  EXPECT_NE(message(nested(65)).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(message(nested(10000)).find("nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(message(std::string(10000, '{')).find("line 1"), std::string::npos);
  EXPECT_EQ(message(std::string(64u << 20, ' ')), "parse it: larger than 16777216 bytes");

  std::string many = "{\"x\":[0";
  for (int index = 0; index < (1 << 20); ++index) many += ",0";
  EXPECT_NE(message(many + "]}").find("more than 1048576 values"), std::string::npos);
}

}  // namespace
}  // namespace agentrun::oci
