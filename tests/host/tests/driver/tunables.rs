// SPDX-License-Identifier: GPL-2.0

//! The resolve step of the tunables.

use ko2iblnd_host::driver::tunables::*;
use ko2iblnd_host::proto::Span;

const P: ModuleParams = ModuleParams {
    timeout: 50,
    conns_per_peer: 1,
    ntx: 512,
    credits: 256,
    peer_credits: 8,
    peer_credits_hiw: 0,
    peer_buffer_credits: 0,
    peer_timeout: 180,
    ib_mtu: 0,
    concurrent_sends: 0,
    map_on_demand: 1,
    fmr_pool_size: 512,
    fmr_flush_trigger: 384,
    fmr_cache: 1,
    tos: -1,
};

const UNSET: Common = Common {
    peer_timeout: -1,
    peer_tx_credits: -1,
    peer_rtr_credits: -1,
    max_tx_credits: -1,
};

fn run(p: &ModuleParams, c: &Common, given: Option<&O2ib>) -> Result<Resolved, Rejected> {
    resolve(p, &O2ib::captured(p).0, c, given, 49)
}

fn with_params(p: ModuleParams) -> Resolved {
    run(&p, &UNSET, None).unwrap()
}

fn with_o2ib(given: O2ib) -> Resolved {
    run(&P, &UNSET, Some(&given)).unwrap()
}

fn notes(r: &Resolved) -> Vec<(&'static str, i64, i64)> {
    r.notes.iter().map(|n| (n.param, n.given, n.used)).collect()
}

/// The figures that the contract's examples give: peer credits, hiw, concurrent sends.
fn figures(r: &Resolved) -> (i32, u32, u32) {
    (
        r.common.peer_tx_credits,
        r.o2ib.peercredits_hiw,
        r.o2ib.concurrent_sends,
    )
}

#[test]
fn defaults_are_what_users_see() {
    let r = with_params(P);
    let want = Common {
        peer_timeout: 180,
        peer_tx_credits: 8,
        peer_rtr_credits: 0,
        max_tx_credits: 256,
    };
    assert_eq!(r.common, want);
    let want = O2ib {
        peercredits_hiw: 4,
        map_on_demand: 1,
        concurrent_sends: 8,
        fmr_pool_size: 512,
        fmr_flush_trigger: 384,
        fmr_cache: 1,
        conns_per_peer: 1,
        ntx: 512,
        timeout: 50,
        tos: -1,
    };
    assert_eq!(r.o2ib, want);
    assert_eq!(notes(&r), []);
    assert!(!r.few_concurrent_sends);
}

#[test]
fn examples_of_the_contract() {
    assert_eq!(figures(&with_params(P)), (8, 4, 8));
    let opa = ModuleParams {
        peer_credits: 32,
        credits: 1024,
        peer_credits_hiw: 16,
        concurrent_sends: 64,
        ntx: 2048,
        map_on_demand: 256,
        fmr_pool_size: 2048,
        fmr_flush_trigger: 512,
        conns_per_peer: 4,
        ..P
    };
    let r = with_params(opa);
    assert_eq!(figures(&r), (32, 16, 64));
    assert_eq!(notes(&r), []);
    assert_eq!((r.o2ib.map_on_demand, r.o2ib.ntx), (256, 2048));
    assert_eq!(r.o2ib.conns_per_peer, 4);

    let r = with_params(ModuleParams {
        peer_credits: 300,
        credits: 1024,
        ..P
    });
    assert_eq!(figures(&r), (255, 127, 255));
    assert_eq!(notes(&r), [("peer_credits", 300, 255)]);

    let r = with_params(ModuleParams {
        peer_credits: 16,
        credits: 4,
        ..P
    });
    assert_eq!(figures(&r), (4, 2, 4));
    assert_eq!(notes(&r), [("peer_credits", 16, 4)]);
}

#[test]
fn the_checklist_of_the_contract() {
    // F.2: low clamp, high clamp, clamp to credits.
    for (peer_credits, credits, want) in [(4, 256, 8), (300, 1024, 255), (64, 32, 32)] {
        let common = Common {
            peer_tx_credits: peer_credits,
            max_tx_credits: credits,
            ..UNSET
        };
        let r = run(&P, &common, None).unwrap();
        assert_eq!(r.common.peer_tx_credits, want);
        let note = ("peer_credits", i64::from(peer_credits), i64::from(want));
        assert_eq!(notes(&r), [note]);
    }
    let common = Common {
        peer_tx_credits: 32,
        ..UNSET
    };
    for (hiw, want) in [(40, 31), (4, 16), (20, 20)] {
        let given = O2ib {
            peercredits_hiw: hiw,
            ..O2ib::captured(&P).0
        };
        let r = run(&P, &common, Some(&given)).unwrap();
        assert_eq!(r.o2ib.peercredits_hiw, want);
        assert_eq!(notes(&r).len(), usize::from(hiw != want));
    }
    for (sends, want, few) in [(200, 64, false), (1, 16, true), (16, 16, true)] {
        let given = O2ib {
            concurrent_sends: sends,
            ..O2ib::captured(&P).0
        };
        let r = run(&P, &common, Some(&given)).unwrap();
        assert_eq!(r.o2ib.concurrent_sends, want);
        assert_eq!(r.few_concurrent_sends, few);
    }
}

#[test]
fn pools_are_checked_and_divided() {
    let o = O2ib {
        ntx: 4096,
        fmr_pool_size: 512,
        ..with_params(P).o2ib
    };
    assert_eq!(pools(&o, 1).unwrap_err().param, "fmr_pool_size");
    let enough = O2ib {
        fmr_pool_size: 1024,
        ..o
    };
    assert_eq!(
        pools(&enough, 2),
        Ok(Pools {
            ntx: 2048,
            fmr: 512
        })
    );
    assert_eq!(pools(&enough, 64), Ok(Pools { ntx: 256, fmr: 256 }));
    assert_eq!(
        pools(&enough, 0),
        Ok(Pools {
            ntx: 4096,
            fmr: 1024
        })
    );
}

#[test]
fn zero_for_each_module_parameter() {
    let zero = |f: fn(&mut ModuleParams)| {
        let mut p = P;
        f(&mut p);
        run(&p, &UNSET, None)
    };
    assert_eq!(zero(|p| p.timeout = 0).unwrap().o2ib.timeout, 49);
    assert_eq!(
        zero(|p| p.conns_per_peer = 0).unwrap().o2ib.conns_per_peer,
        1
    );
    assert_eq!(zero(|p| p.ntx = 0).unwrap().o2ib.ntx, 0);
    assert_eq!(zero(|p| p.credits = 0).unwrap_err().param, "credits");
    let r = zero(|p| p.peer_credits = 0).unwrap();
    assert_eq!(notes(&r), [("peer_credits", 0, 8)]);
    let r = zero(|p| p.peer_timeout = 0).unwrap();
    assert_eq!(r.common.peer_timeout, 0);
    assert_eq!(zero(|p| p.map_on_demand = 0).unwrap().o2ib.map_on_demand, 1);
    let r = zero(|p| p.fmr_pool_size = 0).unwrap();
    assert_eq!(pools(&r.o2ib, 1).unwrap_err().param, "fmr_pool_size");
    assert_eq!(zero(|p| p.fmr_cache = 0).unwrap().o2ib.fmr_cache, 0);
    assert_eq!(zero(|p| p.tos = 0).unwrap().o2ib.tos, 0);
    for same in [
        zero(|p| p.peer_credits_hiw = 0),
        zero(|p| p.concurrent_sends = 0),
        zero(|p| p.peer_buffer_credits = 0),
        zero(|p| p.ib_mtu = 0),
    ] {
        assert_eq!(same.unwrap(), with_params(P));
    }
}

#[test]
fn lu_13662_lu_16145_zero_for_each_tunable_means_the_default() {
    let all_zero = O2ib::default();
    let r = with_o2ib(all_zero);
    let want = O2ib {
        tos: 0,
        ..with_params(P).o2ib
    };
    assert_eq!(r.o2ib, want);
    assert_eq!(notes(&r), []);

    let p = ModuleParams {
        conns_per_peer: 4,
        tos: 104,
        map_on_demand: 7,
        ..P
    };
    let given = O2ib {
        tos: -1,
        map_on_demand: u32::MAX,
        ..all_zero
    };
    let r = run(&p, &UNSET, Some(&given)).unwrap();
    assert_eq!(r.o2ib.conns_per_peer, 4);
    assert_eq!(r.o2ib.tos, 104);
    assert_eq!(r.o2ib.map_on_demand, 7);
}

#[test]
fn ib_mtu_must_be_an_mtu() {
    for mtu in [0, 256, 512, 1024, 2048, 4096] {
        assert!(run(&ModuleParams { ib_mtu: mtu, ..P }, &UNSET, None).is_ok());
    }
    for mtu in [-1, 1, 255, 257, 1500, 4095, 4097, 8192, i32::MAX, i32::MIN] {
        let e = run(&ModuleParams { ib_mtu: mtu, ..P }, &UNSET, None).unwrap_err();
        assert_eq!((e.param, e.given), ("ib_mtu", i64::from(mtu)));
    }
}

/// Values at and beyond every limit never panic, and what comes out is in range.
#[test]
fn any_value_resolves_into_range_or_is_rejected() {
    let ints = [
        i32::MIN,
        -2,
        -1,
        0,
        1,
        2,
        7,
        8,
        127,
        128,
        255,
        256,
        65_535,
        65_536,
        i32::MAX,
    ];
    for &credits in &ints {
        for &peer_credits in &ints {
            for &other in &ints {
                let p = ModuleParams {
                    credits,
                    peer_credits,
                    peer_credits_hiw: other,
                    concurrent_sends: other,
                    ntx: other,
                    conns_per_peer: other as u32,
                    tos: other,
                    timeout: other,
                    fmr_pool_size: other,
                    map_on_demand: other,
                    ..P
                };
                match run(&p, &UNSET, None) {
                    Ok(r) => in_range(&r),
                    Err(e) => assert!(e.param == "credits" && credits < 1),
                }
                let given = O2ib {
                    peercredits_hiw: other as u32,
                    map_on_demand: other as u32,
                    concurrent_sends: other as u32,
                    fmr_pool_size: other as u32,
                    conns_per_peer: other as u16,
                    ntx: other as u16,
                    tos: other as i16,
                    ..O2ib::default()
                };
                if let Ok(r) = run(&p, &UNSET, Some(&given)) {
                    in_range(&r);
                }
            }
        }
    }
}

fn in_range(r: &Resolved) {
    let pc = r.common.peer_tx_credits;
    assert!((1..=255).contains(&pc) && pc <= r.common.max_tx_credits);
    let pc = pc as u32;
    assert!(r.o2ib.peercredits_hiw < pc && r.o2ib.peercredits_hiw >= (pc / 2).min(pc - 1));
    assert!(r.o2ib.concurrent_sends <= 2 * pc && r.o2ib.concurrent_sends >= pc / 2);
    assert!((1..=127).contains(&r.o2ib.conns_per_peer));
    assert!((-1..=255).contains(&r.o2ib.tos));
    assert!(r.o2ib.map_on_demand >= 1);
    assert!(r.o2ib.timeout >= 1);
}

/// LU-16460, LU-17621: -1, 0, 1, 127, 128, 2^32+1 for every attribute.
#[test]
fn lu_16460_lu_17621_netlink_ranges() {
    let values = [-1, 0, 1, 127, 128, (1 << 32) + 1];
    let ok = |attr: u32| -> Vec<bool> {
        values
            .iter()
            .map(|&v| nl_set(attr, v, &mut O2ib::default()).is_ok())
            .collect()
    };
    let count = vec![false, true, true, true, true, false];
    for attr in [1, 2, 4, 5, 6, 7] {
        assert_eq!(ok(attr), count, "attribute {attr}");
    }
    assert_eq!(ok(8), [false, true, true, true, false, false]);
    assert_eq!(ok(10), [true, true, true, true, true, false]);
    assert_eq!(ok(3), [true; 6]);
    assert_eq!(ok(9), [true; 6]);
    for attr in [0, 11, u32::MAX] {
        assert_eq!(ok(attr), [false; 6]);
        let e = nl_set(attr, 1, &mut O2ib::default()).unwrap_err();
        assert_eq!(e, SetError::Unknown(attr));
    }
    assert!(nl_set(7, 65_535, &mut O2ib::default()).is_ok());
    assert!(nl_set(7, 65_536, &mut O2ib::default()).is_err());
    assert!(nl_set(10, 255, &mut O2ib::default()).is_ok());
    assert!(nl_set(10, 256, &mut O2ib::default()).is_err());
    assert!(nl_set(1, i64::from(u32::MAX), &mut O2ib::default()).is_ok());
    assert!(nl_set(1, i64::MAX, &mut O2ib::default()).is_err());
}

#[test]
fn netlink_sets_what_it_says_and_nothing_else() {
    let mut o = O2ib::default();
    for attr in 1..=10 {
        nl_set(attr, i64::from(attr), &mut o).unwrap();
    }
    let want = O2ib {
        peercredits_hiw: 1,
        map_on_demand: 0,
        concurrent_sends: 2,
        fmr_pool_size: 4,
        fmr_flush_trigger: 5,
        fmr_cache: 6,
        conns_per_peer: 8,
        ntx: 7,
        timeout: 0,
        tos: 10,
    };
    assert_eq!(o, want);
    let e = nl_set(8, 128, &mut o).unwrap_err();
    assert_eq!(e.to_string(), "conns_per_peer 128 is outside 0..127");
    assert_eq!(o, want);
}

#[test]
fn what_a_new_ni_starts_from() {
    let p = ModuleParams {
        concurrent_sends: 64,
        peer_credits: 32,
        credits: 1024,
        ..P
    };
    let (captured, _) = O2ib::captured(&p);
    let (common, o2ib) = tun_defaults(&p, &captured, &UNSET, 49).unwrap();
    assert_eq!(common.peer_tx_credits, 32);
    assert_eq!(o2ib, captured);
    assert_eq!((o2ib.concurrent_sends, o2ib.peercredits_hiw), (64, 0));
    // The C driver reports success here and leaves what cannot work.
    let p = ModuleParams { ib_mtu: 1500, ..P };
    assert!(tun_defaults(&p, &captured, &UNSET, 49).is_err());
}

#[test]
fn captured_values_fit_their_width() {
    let (o, n) = O2ib::captured(&ModuleParams {
        ntx: 70_000,
        conns_per_peer: 128,
        ..P
    });
    assert_eq!((o.ntx, o.conns_per_peer), (65_535, 127));
    let n: Vec<_> = n.iter().map(ToString::to_string).collect();
    let want = [
        "ntx 70000 is out of range, using 65535",
        "conns_per_peer 128 is out of range, using 127",
    ];
    assert_eq!(n, want);
}

#[test]
fn lu_13510_lu_18566_values_that_change_while_an_ni_is_up() {
    assert_eq!(timeout(0, 0), 1);
    assert_eq!(timeout(20, 49), 20);
    assert_eq!(timeout(-5, 49), 49);
    for (live, param, want) in [
        (0, 0, 1),
        (0, 4, 4),
        (2, 4, 2),
        (128, 1, 127),
        (0, 500, 127),
    ] {
        assert_eq!(live_conns_per_peer(live, param), want);
    }
    for (live, param, want) in [
        (-1, -1, None),
        (-1, 104, Some(104)),
        (0, 104, Some(0)),
        (300, -1, Some(255)),
    ] {
        assert_eq!(live_tos(live, param), want);
    }
}

#[test]
fn retries_and_entries() {
    assert_eq!(retries("retry_count", 5), (5, None));
    let (used, note) = retries("retry_count", 8);
    assert_eq!((used, note.map(|n| n.used)), (7, Some(7)));
    assert_eq!(wrq_sge(2), (2, None));
    assert_eq!(wrq_sge(0).0, 2);
    assert_eq!(wrq_sge(u32::MAX).0, 32);
    assert!(wrq_sge(1).1.is_some());
}

#[test]
fn scheduler_threads() {
    // (nscheds, CPUs of the CPT) -> (limit, at first)
    for (nscheds, weight, limit, first) in [
        (0, 0, 0, 0),
        (0, 1, 1, 1),
        (0, 2, 2, 2),
        (0, 4, 2, 2),
        (0, 16, 8, 4),
        (3, 16, 3, 3),
        (3, 2, 2, 2),
    ] {
        let (s, note) = schedulers(nscheds, weight);
        assert_eq!(s, Schedulers { limit, first }, "{nscheds} {weight}");
        assert_eq!(note.is_some(), nscheds > 0 && nscheds as u32 > weight);
    }
}

const LIVE: LiveParams = LiveParams {
    timeout: 50,
    lnet_timeout: 49,
    keepalive: 100,
    wrq_sge: 2,
    conns_per_peer: 1,
    ni_conns_per_peer: 0,
    cksum: false,
};

#[test]
fn what_peers_and_connections_get_now() {
    let resolved = with_params(ModuleParams {
        peer_credits: 32,
        credits: 1024,
        peer_credits_hiw: 20,
        concurrent_sends: 64,
        ..P
    });
    let now = resolved.now(&LIVE);
    assert_eq!(
        (now.peer_credits, now.credits_hiw, now.concurrent_sends),
        (32, 20, 64)
    );
    assert_eq!((now.max_frags, now.wrq_sge), (257, 2));
    assert_eq!(now.timeout, Span::from_secs(50));
    assert_eq!(now.connect_timeout, Span(12_500_000_000));
    assert_eq!(now.keepalive, Some(Span::from_secs(100)));
    assert_eq!((now.conns_per_peer, now.cksum), (1, false));
    let now = resolved.now(&LiveParams {
        timeout: 0,
        keepalive: 0,
        wrq_sge: 100,
        ni_conns_per_peer: 4,
        cksum: true,
        ..LIVE
    });
    assert_eq!(now.timeout, Span::from_secs(49));
    assert_eq!(now.keepalive, None);
    assert_eq!((now.wrq_sge, now.conns_per_peer, now.cksum), (32, 4, true));
    let negative = LiveParams {
        keepalive: -1,
        ..LIVE
    };
    assert_eq!(resolved.now(&negative).keepalive, None);
}

#[test]
fn pools_and_threads_grow_to_their_limits() {
    assert_eq!((first_mrs(256), first_mrs(10)), (64, 10));
    let threads = Schedulers { limit: 6, first: 4 };
    assert_eq!(threads.wanted(0, false), 4);
    assert_eq!(threads.wanted(0, true), 4);
    assert_eq!(threads.wanted(4, false), 4);
    assert_eq!(threads.wanted(4, true), 5);
    assert_eq!(threads.wanted(6, true), 6);
}
