#pragma once

#include <memory>

namespace longhaul {

// libnl's counted objects, given back by what libnl calls for each kind:
//   using Route = NetlinkObject<rtnl_route, rtnl_route_put>;
template <typename T, void (*kPut)(T*)>
struct NetlinkPut {
  void operator()(T* object) const { kPut(object); }
};
template <typename T, void (*kPut)(T*)>
using NetlinkObject = std::unique_ptr<T, NetlinkPut<T, kPut>>;

}  // namespace longhaul
