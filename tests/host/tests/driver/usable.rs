// SPDX-License-Identifier: GPL-2.0

//! Whether an NI can be used.

use ko2iblnd_host::driver::usable::Usability;

#[test]
fn everything_must_be_there() {
    for bits in 0..16u8 {
        let bit = |n: u8| bits >> n & 1 == 1;
        let it = Usability {
            device: bit(0),
            port: bit(1),
            link: bit(2),
            address: bit(3),
        };
        assert_eq!(it.is_fatal(), bits != 15, "{it:?}");
        let text = it.to_string();
        assert_eq!(text.contains("device is gone"), !it.device, "{text}");
        assert_eq!(text.contains("port is not active"), !it.port, "{text}");
        assert_eq!(text.contains("no link"), !it.link, "{text}");
        assert_eq!(text.contains("lost the address"), !it.address, "{text}");
    }
    let two = Usability {
        device: true,
        port: false,
        link: false,
        address: true,
    };
    let text = "the RDMA port is not active, the interface has no link";
    assert_eq!(two.to_string(), text);
}
