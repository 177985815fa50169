/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The LND's manners, for enum si_check and its names. Each is counted in debugfs
 * "checks", and each count must be zero.
 */
SI_NAME(finalize_unknown),	/* finalized twice, or never LNet's */
SI_NAME(finalize_missing),	/* not finalized when its NI had to go */
SI_NAME(finalize_owner),	/* finalized while LNet had it */
SI_NAME(finalize_status),	/* finalized with a positive status */
SI_NAME(context),		/* called LNet from a wrong context */
SI_NAME(ni_stale),		/* named an NI that is not there */
SI_NAME(ni_held),		/* held an NI after its shutdown */
SI_NAME(ni_refs),		/* dropped an NI reference not taken */
SI_NAME(startup),		/* left an NI unfit after startup */
SI_NAME(registration),		/* registered twice or not at all */
SI_NAME(returned),		/* positive return where 0 or -errno is due */
SI_NAME(returned_owned),	/* returned an error for a kept message */
SI_NAME(parse_args),		/* parse without private data, or a wrong flag */
SI_NAME(reply_request),		/* reply message for a request that has none */
SI_NAME(reply_left),		/* reply message left behind by a failed send */
SI_NAME(reply_len),		/* reply length beyond the buffer */
SI_NAME(notify_time),		/* life sign from the future */
SI_NAME(kiov_changed),		/* changed the page vector of a message */
SI_NAME(data),			/* delivered wrong bytes */
SI_NAME(bounds),		/* wrote outside the payload */
SI_NAME(leak),			/* something left when the stand-in unloads */
