#include "cuda_reduce/block_pool.h"

#include <cstdlib>
#include <set>

#include "test/catch.h"

namespace {

struct Source {
  std::set<std::byte*> out;
  std::set<std::byte*> lost;
  std::size_t asked = 0;
  bool empty = false;

  gpuar::BlockSource face() {
    return {this,
            [](void* self, std::size_t bytes) -> std::byte* {
              auto& source = *static_cast<Source*>(self);
              if (source.empty) return nullptr;
              source.asked += bytes;
              return *source.out.insert(new std::byte[bytes]).first;
            },
            [](void* self, std::byte* block) {
              CHECK(static_cast<Source*>(self)->out.erase(block) == 1);
              delete[] block;
            },
            [](void* self, std::byte* block) { static_cast<Source*>(self)->lost.insert(block); }};
  }
};

}  // namespace

TEST_CASE("blocks are powers of two, reused by size", "[block_pool]") {
  Source source;
  gpuar::BlockPool pool(source.face());
  CHECK(gpuar::BlockPool::block_bytes(0) == 256);
  CHECK(gpuar::BlockPool::block_bytes(256) == 256);
  CHECK(gpuar::BlockPool::block_bytes(257) == 512);
  CHECK(gpuar::BlockPool::block_bytes(std::size_t{1} << 60) == 0);
  CHECK(pool.take(300) == nullptr);
  std::byte* block = pool.allocate(300);
  CHECK(source.asked == 512);
  CHECK(pool.bytes() == 512);
  CHECK(pool.idle_bytes() == 0);
  CHECK(pool.give(block));
  CHECK(pool.take(256) == nullptr);
  CHECK(pool.take(512) == block);
  CHECK(pool.give(block));
  pool.clear();
  CHECK(source.out.empty());
  CHECK(pool.bytes() == 0);
}

TEST_CASE("trimming frees the largest idle blocks first", "[block_pool]") {
  Source source;
  gpuar::BlockPool pool(source.face());
  std::byte* small = pool.allocate(256);
  std::byte* large = pool.allocate(4096);
  std::byte* used = pool.allocate(8192);
  CHECK(pool.give(small));
  CHECK(pool.give(large));
  pool.trim(1000);
  CHECK(source.out == std::set{small, used});
  CHECK(pool.idle_bytes() == 256);
  pool.trim(0);
  CHECK(source.out == std::set{used});
  pool.clear();
  CHECK(source.out.empty());
}

TEST_CASE("blocks of a lost context are forgotten, not freed", "[block_pool]") {
  Source source;
  gpuar::BlockPool pool(source.face());
  std::byte* block = pool.allocate(256);
  pool.forget();
  CHECK_FALSE(pool.give(block));
  CHECK(pool.idle_bytes() == 0);
  CHECK(source.out.size() == 1);
  CHECK(source.lost == std::set{block});
  delete[] block;
  source.empty = true;
  CHECK(pool.allocate(256) == nullptr);
}
