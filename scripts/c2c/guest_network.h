/* SPDX-License-Identifier: GPL-2.0 */
#ifndef C2C_GUEST_NETWORK_H
#define C2C_GUEST_NETWORK_H

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "guest.h"

/* Start the loopback. The kernel gives it its address by itself. */
static inline void start_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request))
		fail("the loopback");
	close(any);
}

#endif
