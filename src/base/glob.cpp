#include <fnmatch.h>

#include <algorithm>
#include <system_error>

#include "base/files.h"

namespace coeus::files {
namespace {

namespace fs = std::filesystem;

bool has_wildcard(const std::string& component) {
  return component.find_first_of("*?[") != std::string::npos;
}

std::vector<fs::directory_entry> entries(const Path& directory) {
  std::error_code ignored;  // what cannot be read matches nothing
  std::vector<fs::directory_entry> found;
  for (fs::directory_iterator it(directory.empty() ? Path(".") : directory, ignored), end;
       !ignored && it != end; it.increment(ignored)) {
    found.push_back(*it);
  }
  return found;
}

class Walk {
 public:
  explicit Walk(const Path& pattern) {
    for (const Path& component : pattern.relative_path()) {
      if (!component.empty()) components_.push_back(component.string());
    }
    visit(pattern.root_path(), 0);
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  }
  std::vector<Path> take() { return std::move(found_); }

 private:
  void visit(const Path& here, std::size_t i) {
    if (i == components_.size()) {
      found_.push_back(here);
      return;
    }
    const std::string& component = components_[i];
    if (component == "**") {
      visit_recursively(here, i);
    } else if (!has_wildcard(component)) {
      if (files::exists(here / component)) visit(here / component, i + 1);
    } else {
      for (const auto& entry : entries(here)) {
        const std::string name = entry.path().filename().string();
        if (fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
        if (i + 1 == components_.size() || files::is_directory(entry.path()))
          visit(here / name, i + 1);
      }
    }
  }

  void visit_recursively(const Path& here, std::size_t i) {
    if (i + 1 < components_.size()) visit(here, i + 1);  // ** stands for no folder, too
    for (const auto& entry : entries(here)) {
      const std::string name = entry.path().filename().string();
      std::error_code ignored;
      if (name.starts_with(".")) continue;
      if (i + 1 == components_.size()) found_.push_back(here / name);
      // a linked folder is not entered: links may form a loop
      if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) {
        visit_recursively(here / name, i);
      }
    }
  }

  std::vector<std::string> components_;
  std::vector<Path> found_;
};

}  // namespace

std::vector<Path> glob(const std::string& pattern) {
  if (files::exists(pattern)) return {pattern};
  return Walk(pattern).take();
}

}  // namespace coeus::files
