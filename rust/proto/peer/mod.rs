// SPDX-License-Identifier: GPL-2.0

//! One (NI, NID) pair: attempts, races, pacing, waiting messages.
