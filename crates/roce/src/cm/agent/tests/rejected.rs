//! Messages that are rejected without a connection (12.6.7.2).

use super::*;

/// Sends a message of the other end to an agent without connections, and returns the answer.
fn answer_to(mad: &CmMad) -> (Ids, About, u16) {
    let mut agent = agent(2);
    let message = Incoming {
        src: GIDS[0],
        dst: GIDS[1],
        mad: mad.bytes(),
    };
    let received = agent.receive(&message, mad.clone(), Time(1));
    assert_eq!(received, Received::Handled);
    let [Outgoing { route, mad: answer }] = agent.take_outgoing()[..] else {
        panic!()
    };
    assert_eq!(route, Route::back(GIDS[0], GIDS[1]));
    let answer = CmMad::parse(&answer).unwrap();
    assert_eq!(answer.tid, mad.tid);
    let CmMessage::Rej(rej) = answer.message else {
        panic!("{answer:?}")
    };
    (rej.ids, rej.about, rej.reason)
}

fn mad(message: CmMessage) -> CmMad {
    CmMad {
        tid: 5,
        modifier: 0,
        message,
    }
}

#[test]
fn a_request_for_a_transport_that_is_not_supported() {
    for (service, extended) in [(2, 0), (3, 0), (3, 2)] {
        let connection = ConnectionType::Unsupported { service, extended };
        let req = Req {
            connection,
            ..req(&mut agent(1))
        };
        let ids = Ids {
            local: 0,
            remote: req.local_id,
        };
        let answer = answer_to(&mad(CmMessage::Req(Box::new(req))));
        assert_eq!(answer, (ids, About::Req, reason::INVALID_TRANSPORT));
    }
}

/// The peer takes the answer for one of its connection, which ends.
#[test]
fn a_reply_to_an_unknown_request() {
    let mut simulation = Simulation::new(Vec::new(), Duration::from_secs(1), 0);
    simulation.connect();
    simulation.now = Time(2_000_000);
    simulation.step();
    assert_eq!(simulation.seen[1], [Seen::Request]);
    // As if another process had taken the place of the active one.
    simulation.agents[0] = agent(1);
    simulation.run();
    let rejected = Seen::Rejected(reason::INVALID_COMM_ID);
    assert_eq!(simulation.seen[1], [Seen::Request, rejected]);
}

#[test]
fn a_reply_is_rejected_with_both_ids() {
    let rep = Rep {
        ids: Ids {
            local: 8,
            remote: 0x1234_5678,
        },
        ..rep()
    };
    let ids = Ids {
        local: 0x1234_5678,
        remote: 8,
    };
    let answer = answer_to(&mad(CmMessage::Rep(Box::new(rep))));
    assert_eq!(answer, (ids, About::Rep, reason::INVALID_COMM_ID));
}
