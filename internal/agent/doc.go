// SPDX-License-Identifier: Apache-2.0

// Package agent keeps requests running: each is a process of its own, which is begun again after it has failed.
// What one request does, or what memory it takes, touches no other. A new set of requests leaves those alone that
// are the same.
//
// Processes are behind an interface, so that tests need none.
package agent
