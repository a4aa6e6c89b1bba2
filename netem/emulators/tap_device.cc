#include "netem/emulators/tap_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/status_macros.h"

namespace longhaul {
namespace {

constexpr char kTunDevice[] = "/dev/net/tun";

absl::StatusOr<Fd> OpenTunDevice() {
  Fd fd(open(kTunDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (fd.ok()) return fd;
  const int error = errno;
  const absl::Status s = ErrnoStatus(fmt::format("open {}", kTunDevice), error);
  if (absl::IsResourceExhausted(s)) return s;
  std::string help = "load the module with 'modprobe tun'";
  struct stat mode {};
  if ((error == EACCES || error == EPERM) && stat(kTunDevice, &mode) == 0) {
    help = fmt::format("its mode is {:04o}: run as root, or 'chmod 0666 {}' once",
                       mode.st_mode & 07777, kTunDevice);
  }
  return absl::Status(s.code(), fmt::format("{}; {}", std::string(s.message()), help));
}

}  // namespace

absl::StatusOr<Fd> OpenTap(const std::string& device, TapFrames frames) {
  auto fd = OpenTunDevice();
  if (!fd.ok()) return fd;
  ifreq request{};
  strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (frames != TapFrames::kPlain) request.ifr_flags |= IFF_VNET_HDR;
  if (ioctl(fd->get(), TUNSETIFF, &request) != 0) {
    return ErrnoStatus(fmt::format("create TAP device {} on {}", device, kTunDevice), errno);
  }
  if (frames == TapFrames::kPlain) return fd;
  RETURN_IF_ERROR(SetTapFrames(fd->get(), frames));
  return fd;
}

absl::Status SetTapFrames(int tap_fd, TapFrames frames) {
  const unsigned offloads =
      frames == TapFrames::kTso ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 : TUN_F_CSUM;
  if (ioctl(tap_fd, TUNSETOFFLOAD, offloads) == 0) return absl::OkStatus();
  return ErrnoStatus(fmt::format("set offloads {:#x} of a TAP device", offloads), errno);
}

absl::Status CheckTunDevice() { return OpenTunDevice().status(); }

}  // namespace longhaul
