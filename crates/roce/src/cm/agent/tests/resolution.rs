//! Service ID resolution.

use super::*;
use crate::cm::mad::SIDR_REQ_PRIVATE;

#[test]
fn a_resolution_is_answered_again_if_the_answer_is_lost() {
    let mut client = agent(1);
    let mut server = agent(2);
    let req = SidrReq {
        request_id: client.alloc_id().unwrap(),
        pkey: 0xffff,
        service_id: SERVICE,
        private: [0; SIDR_REQ_PRIVATE],
    };
    let now = Time(1);
    let timeout = Duration::from_secs(4);
    let (connection, mad) = Connection::resolve(req.clone(), timeout, 15, 4, now);
    client.start(OWNERS[0], connection, Route::back(GIDS[1], GIDS[0]), mad);
    let message = Incoming {
        src: GIDS[0],
        dst: GIDS[1],
        mad: client.take_outgoing().remove(0).mad,
    };
    let parsed = CmMad::parse(&message.mad).unwrap();
    let Received::Resolution { req, mad } = server.receive(&message, parsed.clone(), now) else {
        panic!()
    };
    let route = Route::back(GIDS[0], GIDS[1]);
    let id = server
        .accept_resolution(OWNERS[1], &req, mad.tid, route)
        .unwrap();
    // Not decided yet: the repetition is ignored.
    assert_eq!(
        server.receive(&message, parsed.clone(), now),
        Received::Handled
    );
    assert!(server.take_outgoing().is_empty());
    let rep = SidrRep {
        request_id: 0,
        status: sidr_status::SUCCESS,
        qpn: QPNS[1],
        service_id: 0,
        qkey: 1,
        private: [0; SIDR_REP_PRIVATE],
    };
    server.act(id, |sidr| sidr.answer(rep, 0)).unwrap();
    let first = server.take_outgoing();
    assert_eq!(server.receive(&message, parsed, now), Received::Handled);
    assert_eq!(server.take_outgoing(), first);
    let answer = CmMad::parse(&first[0].mad).unwrap();
    let mut message = Incoming {
        src: [3; 16],
        dst: GIDS[0],
        mad: first[0].mad,
    };
    let forged = client.receive(&message, answer.clone(), now);
    assert_eq!(forged, Received::Handled, "from another address");
    message.src = GIDS[1];
    let received = client.receive(&message, answer, now);
    let Received::Event { owner, event } = received else {
        panic!()
    };
    assert_eq!(owner, OWNERS[0]);
    assert!(matches!(event, Event::SidrReply { rep, .. } if rep.qpn == QPNS[1]));
    assert_eq!(client.deadline(), None);
    server.destroy(id, now);
    assert!(server.entries.is_empty());
}
