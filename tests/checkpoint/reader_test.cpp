#include "checkpoint/manifest.h"
#include "tests/checkpoint/support.h"

namespace coeus::checkpoint {
namespace {

// Opens and reads everything, fully verified, as training does on resume.
std::string load_error(const files::Path& path) {
  return error_of([&] {
    const Reader reader = Reader::open(path);
    reader.read({}, Peers{}, Verify::full);
  });
}

TEST(Faults, AFlippedByteInAnyFileIsFoundAndTheFileNamed) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  const auto names = all_files(path);
  ASSERT_GT(names.size(), 10u);
  for (const auto& name : names) {
    const std::uint64_t size = files::File::open_to_read(path / name).size();
    for (const std::uint64_t at : {std::uint64_t{0}, size / 2, size - 1}) {
      flip_byte(path / name, at);
      const auto faults = verify(path).faults;
      ASSERT_FALSE(faults.empty()) << name << " at " << at;
      EXPECT_NE(faults[0].find(name), std::string::npos) << faults[0];
      EXPECT_NE(load_error(path).find(name), std::string::npos) << name << " at " << at;
      flip_byte(path / name, at);
    }
  }
  EXPECT_EQ(load_error(path), "");
}

TEST(Faults, ATruncatedMissingOrForeignFileIsFoundAndNamed) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  for (const auto& name : all_files(path)) {
    const std::string good = files::read_text(path / name);
    const auto expect_fault = [&](const std::string& how) {
      const auto faults = verify(path).faults;
      ASSERT_FALSE(faults.empty()) << name << " " << how;
      EXPECT_NE(load_error(path).find(name), std::string::npos) << name << " " << how;
      std::vector<std::string> passed_over;
      EXPECT_TRUE(find_checkpoints(folder.path(), &passed_over).empty()) << name << " " << how;
      ASSERT_EQ(passed_over.size(), 1u);
      EXPECT_NE(passed_over[0].find(name), std::string::npos) << passed_over[0];
    };
    files::write_text(path / name, good.substr(0, good.size() - 1));
    expect_fault("truncated");
    files::write_text(path / name, "");
    expect_fault("empty");
    files::write_text(path / name, good + "x");
    expect_fault("longer");
    files::remove(path / name);
    expect_fault("missing");
    files::write_text(path / name, good);
  }
  EXPECT_EQ(verify(path).faults, std::vector<std::string>());
  files::write_text(path / "stray.bin", "x");
  EXPECT_EQ(verify(path).faults,
            std::vector<std::string>{"stray.bin: not in the manifest, a foreign file"});
}

TEST(Faults, AFileOfAnotherCheckpointIsFound) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  auto request = sample_request(folder.path(), 8);
  const Holding holding(request.sets, Deal::even, 0, 1, "later");
  request.runs = holding.runs;
  const auto other = save(request, Peers{});
  for (const auto& name : all_files(path)) {
    const std::string good = files::read_text(path / name);
    const std::string foreign = files::read_text(other / name);
    if (foreign == good) continue;
    files::write_text(path / name, foreign);
    EXPECT_NE(load_error(path), "") << name;
    EXPECT_FALSE(verify(path).faults.empty()) << name;
    files::write_text(path / name, good);
  }
}

TEST(Reader, FullVerificationOfOneRanksShareFailsOnAllRanks) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  const std::string file = "optimizer/exp_avg-00001-of-00002.safetensors";
  flip_byte(path / file, files::File::open_to_read(path / file).size() - 1);
  const auto errors =
      run_ranks(4, [&](const Peers& peers) { Reader::open(path).read({}, peers, Verify::full); });
  for (const auto& e : errors) {
    EXPECT_NE(e.find(file), std::string::npos) << e;
    EXPECT_EQ(e, errors[0]);
  }
  EXPECT_EQ(
      run_ranks(2, [&](const Peers& peers) { Reader::open(path).read({}, peers, Verify::off); })[0],
      "");
}

TEST(Reader, OwnVerificationSeesTheRunsThatAreReadAndNoOthers) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  const std::string file = "optimizer/master-00001-of-00002.safetensors";
  flip_byte(path / file, files::File::open_to_read(path / file).size() - 1);
  const auto read = [&](const std::string& set, const std::string& tensor, std::size_t elements) {
    std::vector<std::byte> bytes(elements * 4);
    return error_of([&] {
      Reader::open(path).read({{set, tensor, 0, bytes, DType::F32}}, Peers{}, Verify::own);
    });
  };
  EXPECT_EQ(read("optimizer/exp_avg", "embed.weight", 400), "");
  EXPECT_EQ(read("optimizer/master", "norm.weight", 8), "");
  EXPECT_NE(read("optimizer/master", "embed.weight", 1).find(file), std::string::npos);
}

TEST(Reader, AnErrorOfOneRankIsThrownOnAll) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  const auto errors = run_ranks(3, [&](const Peers& peers) {
    std::vector<std::byte> bytes(32);
    const std::string name = peers.rank == 1 ? "nonsense" : "norm.weight";
    Reader::open(path).read({{"optimizer/master", name, 0, bytes, DType::F32}}, peers, Verify::off);
  });
  for (const auto& e : errors) {
    EXPECT_NE(e.find("rank 1: optimizer/master: tensor nonsense: not in this checkpoint"),
              std::string::npos)
        << e;
  }
}

TEST(Reader, RefusesRunsOutsideATensorAndDtypesItCannotConvert) {
  Folder folder;
  const auto reader = Reader::open(save_alone(folder.path(), 7));
  std::vector<std::byte> bytes(32);
  const auto read = [&](ReadRun run) {
    return error_of([&] { reader.read({run}, Peers{}, Verify::off); });
  };
  EXPECT_EQ(read({"model", "norm.weight", 0, bytes, DType::F32}), "");
  EXPECT_NE(read({"model", "norm.weight", 1, bytes, DType::F32}), "");
  EXPECT_NE(read({"model", "norm.weight", -1, bytes, DType::F32}), "");
  EXPECT_NE(read({"model", "norm.weight", 0, std::span(bytes).first(6), DType::F32}), "");
  EXPECT_NE(read({"model", "norm.weight", 0, bytes, DType::I32}).find("is BF16, wanted is I32"),
            std::string::npos);
  EXPECT_NE(read({"optimizer/exp_avg_sq", "norm.weight", 0, bytes, DType::F32}), "");
}

TEST(Reader, OffersWhatTheStepFolderHolds) {
  Folder folder;
  const auto reader = Reader::open(save_alone(folder.path(), 7));
  EXPECT_EQ(reader.sets(),
            (std::vector<std::string>{"model", "optimizer/exp_avg", "optimizer/master"}));
  EXPECT_EQ(reader.config()["model_type"], "llama");
  EXPECT_EQ((*reader.train_state())["step"], 7);
  EXPECT_EQ((*reader.manifest())["stamps"]["version"], "0.1.0");
  EXPECT_EQ(reader.tensors("model").size(), sample_sets()[0].tensors.size());
  EXPECT_NE(error_of([&] { reader.tensors("optimizer/none"); }), "");
}

void write_safetensors(const files::Path& path, const std::vector<TensorInfo>& tensors,
                       const std::string& data) {
  files::write_text(path, plan_safetensors(tensors, Json{{"format", "pt"}}).head + data);
}

TEST(Reader, OpensAHuggingFaceFolderWithAnIndexAndConverts) {
  Folder folder;
  const std::uint16_t half[] = {0x3c00, 0xc000}, brain[] = {0x3f80, 0x4040};
  const std::string f16(reinterpret_cast<const char*>(half), 4);
  const std::string bf16(reinterpret_cast<const char*>(brain), 4);
  write_safetensors(folder / "model-00001-of-00002.safetensors", {{"a", DType::F16, {2}}}, f16);
  write_safetensors(folder / "model-00002-of-00002.safetensors", {{"b", DType::BF16, {2}}}, bf16);
  files::write_text(folder / "config.json", "{}");
  const auto index = [&](const std::string& map) {
    files::write_text(folder / "model.safetensors.index.json",
                      fmt::format(R"({{"weight_map": {}}})", map));
  };
  index(R"({"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})");
  const auto reader = Reader::open(folder.path());
  EXPECT_EQ(reader.sets(), std::vector<std::string>{"model"});
  EXPECT_FALSE(reader.manifest() || reader.train_state());
  float a[2], b;
  std::uint16_t c[2];
  reader.read({{"model", "a", 0, std::as_writable_bytes(std::span(a)), DType::F32},
               {"model", "b", 1, std::as_writable_bytes(std::span(&b, 1)), DType::F32},
               {"model", "a", 0, std::as_writable_bytes(std::span(c)), DType::BF16}},
              Peers{}, Verify::full);
  EXPECT_EQ(a[0], 1.0f);
  EXPECT_EQ(a[1], -2.0f);
  EXPECT_EQ(b, 3.0f);
  EXPECT_EQ(c[1], 0xc000);
  EXPECT_EQ(verify(folder.path()).faults, std::vector<std::string>());

  for (const char* map :
       {R"({"a": "../model-00001-of-00002.safetensors"})", R"({"a": 3})",
        R"({"a": "pytorch_model.bin"})", R"([])", R"({"b": "model-00001-of-00002.safetensors"})",
        R"({"a": "model-00003-of-00002.safetensors"})"}) {
    index(map);
    EXPECT_NE(error_of([&] { Reader::open(folder.path()); }), "") << map;
    EXPECT_EQ(verify(folder.path()).faults.size(), 1u) << map;
  }
}

TEST(Reader, SaysWhatIsMissingInAFolderThatIsNoModel) {
  Folder folder;
  const auto error = [&](const files::Path& path) { return error_of([&] { Reader::open(path); }); };
  EXPECT_NE(error(folder / "nowhere").find("no such folder"), std::string::npos);
  EXPECT_NE(error(folder.path()).find("no config.json"), std::string::npos);
  files::write_text(folder / "config.json", "{}");
  EXPECT_NE(error(folder.path()).find("neither model.safetensors nor"), std::string::npos);
  files::make_directories(folder / "step-00000007.tmp-1");
  EXPECT_NE(error(folder / "step-00000007.tmp-1/").find("no manifest.json"), std::string::npos);
}

TEST(Manifest, HostileOnesAreRefused) {
  Folder folder;
  const auto load = [&](const std::string& text) {
    files::write_text(folder / "manifest.json", text);
    return error_of([&] { Manifest::load(folder.path()); });
  };
  const auto with_file = [](ManifestFile file) {
    return Manifest{1, Json::object(), {std::move(file)}}.to_text();
  };
  EXPECT_EQ(load(with_file({"optimizer/a", 8, {{0, 4, 1}, {4, 4, 2}}})), "");
  EXPECT_NE(load(with_file({"../a", 4, {{0, 4, 1}}})).find("outside"), std::string::npos);
  EXPECT_NE(load(with_file({"/etc/a", 4, {{0, 4, 1}}})).find("outside"), std::string::npos);
  EXPECT_NE(load(with_file({"x/../../a", 4, {{0, 4, 1}}})).find("outside"), std::string::npos);
  EXPECT_NE(load(with_file({"a", 8, {{0, 4, 1}}})).find("tile"), std::string::npos);
  EXPECT_NE(load(with_file({"a", 8, {{0, 4, 1}, {2, 6, 1}}})).find("tile"), std::string::npos);
  EXPECT_NE(load(with_file({"a", kMaxRunBytes * 2, {{0, kMaxRunBytes * 2, 1}}})).find("tile"),
            std::string::npos);
  EXPECT_NE(load(with_file({"a", ~std::uint64_t{0}, {}})).find("not a count"), std::string::npos);
  EXPECT_NE(load("{}").find("no Coeus manifest"), std::string::npos);
  EXPECT_NE(load("").find("no Coeus manifest"), std::string::npos);
}

}  // namespace
}  // namespace coeus::checkpoint
