// SPDX-License-Identifier: GPL-2.0

//! One connection, from "QP exists" to "drained".
