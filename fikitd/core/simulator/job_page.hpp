// The page of a simulated job: the words of a real one, in memory of its own.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "tracking/page_words.hpp"

namespace fikit::simulator {

class JobPage {
 public:
  JobPage() : page_(static_cast<fikit_page*>(std::calloc(1, sizeof(fikit_page)))) {
    if (page_ == nullptr) throw std::bad_alloc();
  }
  fikit_page& operator*() const { return *page_; }
  fikit_page* operator->() const { return page_.get(); }
  fikit_page* get() const { return page_.get(); }

 private:
  struct Free {
    void operator()(fikit_page* page) const { std::free(page); }
  };
  std::unique_ptr<fikit_page, Free> page_; // its ring stays untouched: what is written there goes by notes
};

} // namespace fikit::simulator
