-- The journal of a control plane from before events had classes: jobs of all sorts on a virtual clock,
-- on four cores and then on four GPUs; 31 decisions; a running and a held job at the end.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE decisions (
	number INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	time_us INTEGER NOT NULL, 
	seen INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	actions INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "decisions" VALUES(1,3,1700000000000000,2,'9b8df615ab8fbd0eb70b5b7fa2ccc45f',1,X'789C0D8A410AC0200C04FF927328F1D08B5F1129A12A588216A3F450FAF7E6B030C3EC0BFD69E009A1EA31FA6A097C61D18C700B5B0981D0A16D47474446B4518C089CAEA533DB3F98953EF2C93AC1B725F2FD82B81AC8');
INSERT INTO "decisions" VALUES(2,7,1700000000000000,6,'0f988b88b1717159bb928daedb361a07',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(3,8,1700000090000000,7,'4866d87af4526ced879f5339f684233f',2,X'789C2DCC4B0A84301444D1BDBC7129157594AD04916022D884A4C90707E2DE0D740FEB14DC5BD215451372962DA7169DE89A9B877C83ED87310A0A8302A14862C1448E5C6188A9E3FCE3F9CF2BC4BA4F2BD5F78EE9EB48D9EFB654D1B185F0BCC1C81F71');
INSERT INTO "decisions" VALUES(4,11,1700000090000000,9,'3f0382b6e7bfffde4bbd2ccf7932dc65',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE818E918E818EB181A18180019067A06B1B1B500F1191025');
INSERT INTO "decisions" VALUES(5,21,1700000090000000,20,'aaafd6fe71bb6f94e3e20b97181aec49',2,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE898E918E898E8181A18180019067A06B13A40416320DB025930B61600694D145F');
INSERT INTO "decisions" VALUES(6,27,1700000095000000,25,'e56a62e77d180727215e368583be2640',0,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD5F0C21');
INSERT INTO "decisions" VALUES(7,29,1700000095000000,27,'e56a62e77d180727215e368583be2640',0,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD5F0C21');
INSERT INTO "decisions" VALUES(8,30,1700000095000000,29,'e56a62e77d180727215e368583be2640',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(9,32,1700000100000000,30,'79d1c2a519080806b09579b48a5ebf6a',0,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7EA2825A664951697A4A6407869F945A9C989C5254A5679A53939B500CCEE1648');
INSERT INTO "decisions" VALUES(10,34,1700000105000000,32,'dc21539e21c5e0bb57a7b981ff662718',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE898EB18E818EA181A18180019067A06B1B1B500F15A1028');
INSERT INTO "decisions" VALUES(11,38,1700000120000000,36,'c66fbca8687f3033a770377c9cef8e81',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE858E818E818EA181A18180019067A06B1B1B500F16D1029');
INSERT INTO "decisions" VALUES(12,42,1700000135000000,40,'aa1498308853a10202130fc943ec9ead',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44471BE818EA00B1A98EA18181019065A067101B5B0B00EF63100C');
INSERT INTO "decisions" VALUES(13,47,1700000150000000,46,'e1335a19ede7dff21cbb86e16a48e67b',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(14,48,1700000180000000,47,'95f854efbe3d7b01388153461a11c425',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7EA2825A664951697A4A6407869F945A9C989C5254A5679A53939B500CCB41647');
INSERT INTO "decisions" VALUES(15,50,1700000180000000,49,'a678986f201c9465a33ddd4f585b8080',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(16,52,1700000181000000,51,'be3c9a2cc2daa6e5bd68a5202e79ad9a',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(17,53,1700000201000000,52,'da3a67da0eec4adba2e83ffbb55e4d8c',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7D60200D1E20BD5');
INSERT INTO "decisions" VALUES(18,55,1700000435000000,53,'d23db2309436cf744b657be0652c7066',1,X'789C0D8AC10A80201005FF65CF4B3C0F5DFC954542D2A0100D75E910FD7B7B9B61E6A5F654F28EE91C5B6F5A13F9D93533DD255A1001AF0C76EC00186041084C315D3A66B65BCC8ED6F31EC7245FB594EF07538C1A4D');
INSERT INTO "decisions" VALUES(19,60,1700000701000000,59,'e4d5809c6cfe88d29b80a4136258cb30',1,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE8181AE818E81803290310C340CF2036B6160000A21053');
INSERT INTO "decisions" VALUES(20,68,1700000781000000,67,'d228b38475ba1359965fd3c59ac06fbb',0,X'789C75CCCD0AC2301004E077D9F32A9326B534AF12828436821212C90F3D88EFEE82E7B28719F886FD50393259303DDBBD969177B2BD8EC8F44E41C079A6B0BF46EB51C439C50A7C510C3969B802CAACD3A28D996EF3827586F6ECFEC85A02E743012FFF1FA5C62DB44E368F94BE3F9ED026B1');
INSERT INTO "decisions" VALUES(21,71,1700000911000000,70,'cb40cff851dd13bb18ca81df2c4f52c9',0,X'789C6D4ECB0AC23010FC973D2F255AA3985F294542B34225269A871E4AFFBDBBF51470606076665F0BC46F00A310E67C4BB10607A6A44A082F6F39184604EB1E351772BFEA1E134D3617300B78FA90CFECAB4E69549DF0AAB9E95D6D28B327C924C443CB110751C796EC8AEA77F62D345BE706173CF1081F7BD2FEE9BF85EBBA0144C63A74');
INSERT INTO "decisions" VALUES(22,73,1700000911000000,71,'2653fda6c0b6695ac2de8e8eda4f6604',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE8181AE818E81803290310C340CF2036B6160000D41054');
INSERT INTO "decisions" VALUES(23,78,1700000976000000,76,'de488d497275ecd8019d99056a1ea6e9',1,X'789C6D4ECB0AC23010FC973D2F65631BC5FC4A2812EC0A9598681E7A28FD77B7F5147060607676186681F8096014C29C2F29D6308129A932C2D33B79584BA814120EA888480475348E086EBAD75C58E256AE5B4C7C75B98059C0F39B7D165F925AE21BCF5A42AFEA42993DE7BDB693E29623DA4D1D5A8ABBA97E67DF428B756C70C2E1B7EFC1FBFC7F85EBFA0582843EAA');
INSERT INTO "decisions" VALUES(24,85,1700001311000000,84,'25b35b16a409fc5c29ba0f5a88298722',1,X'789C0D8A410A80201000FFB2E725D6BAF915915852A158345CA543F4F7F636C3CC0BEDA9E009E1D4BDB75913F8C2A219E116B61202A15B917043474406B4508C089CAEA923DB1FCC4AEBF9601DE0EB14F97E829A1AC7');
INSERT INTO "decisions" VALUES(25,91,1700001321000000,89,'a3f821ca7d7159317fc37e47c7ad142c',1,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE8181AE918E898EB181A18180019067A06B1B1B5000136105A');
INSERT INTO "decisions" VALUES(26,94,1700001421000000,93,'653b2ac929610d2670a16a098f8e695c',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7EA2825A664951697A4A6407869F945A9C989C5254A5679A53939B500CCB41647');
INSERT INTO "decisions" VALUES(27,96,1700001421000000,95,'186f28e442f198b9038cece7257d6465',1,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44471BE8181AEB18E858E8181A18180019067A06B1B1B5000126105B');
INSERT INTO "decisions" VALUES(28,101,1700001424000000,100,'85b7d6efee074b0db5a537f7d433d9c0',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B24A4BCC294ED5512AC84904CA44C7D60200DD420C20');
INSERT INTO "decisions" VALUES(29,103,1700001471000000,101,'f73f9260e834f1ea0360206d1bf1cef6',0,X'789CAB56CA2FCF53B232D451CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7D60200D1FE0BD6');
INSERT INTO "decisions" VALUES(30,105,1700001521000000,103,'c43770971701fd1a7af976d3c613e2ef',1,X'789C0D8A410A80201045EFF2D7438C501BAF2212920A8568A8438BE8EECDE6F31EEFBF684F85358473ECBD498DB0B34B22DC2568708EC9ACA4B3916166255ED87B4288978C99F4EFD472EBE90863C25629E5FB017EC21AB2');
INSERT INTO "decisions" VALUES(31,108,1700001574000000,107,'41c8a53bca82f5e5773f387e90d1f5bc',0,X'789CAB56CA2FCF53B232D051CA2C8E2FCA2FCD4B51B22A292A4DD5512AC849044A44C7EA2825A664951697A4A6407869F945A9C989C5254A5679A53939B500CCB41647');
CREATE TABLE events (
	seq INTEGER NOT NULL, 
	time_us INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	job INTEGER, 
	attempt INTEGER, 
	body TEXT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "events" VALUES(1,1700000000000000,'opened',NULL,NULL,'{"version":"0.1.0","policy":"srtf","knobs":{"order":"remaining","backfill":"skip","place":"best-fit","preempt":"rounds","span":"whole","depth":1000,"hold_s":14400.0,"ageing":0.0,"priority_s":1000000000000.0,"round_s":30.0,"margin_s":5.0,"attained_s":3600.0,"cap":1.0,"sleep_s":-1.0,"solve_s":0.0,"attained2_s":0.0,"promote":0.0,"half_life_s":86400.0},"cluster":"live","budget_w":0.0,"nodes":[{"name":"a","device":"CPU1","devices":4,"cpus":4,"memory_mib":8192,"uuids":[],"up":true}],"tuners":["elastic"],"tuner_settings":["elastic.gap_s=30"]}');
INSERT INTO "events" VALUES(2,1700000000000000,'submitted',1,NULL,'{"spec":{"argv":["work"],"cpus":4,"estimate_s":300.0,"name":"long","user":"ada"},"who":""}');
INSERT INTO "events" VALUES(4,1700000000000000,'intended',1,1,'{"rows":[[0,15]],"decision":1}');
INSERT INTO "events" VALUES(5,1700000000000000,'started',1,1,'{"began_us":1700000000000000,"pid":1}');
INSERT INTO "events" VALUES(6,1700000000000000,'submitted',2,NULL,'{"spec":{"argv":["work"],"cpus":2,"estimate_s":10.0,"memory_mib":100,"name":"work","user":"ben"},"who":""}');
INSERT INTO "events" VALUES(9,1700000090000000,'stopping',1,1,'{"why":"preempt"}');
INSERT INTO "events" VALUES(10,1700000090000000,'requeued',1,1,'{"over_us":1700000090000000,"why":"preempt","values":{"exit_code":0,"signal":0,"why":"stopped"}}');
INSERT INTO "events" VALUES(12,1700000090000000,'intended',2,1,'{"rows":[[0,3]],"decision":4}');
INSERT INTO "events" VALUES(13,1700000090000000,'started',2,1,'{"began_us":1700000090000000,"pid":1}');
INSERT INTO "events" VALUES(14,1700000090000000,'submitted',3,NULL,'{"spec":{"argv":["work"],"env":{"CODE":"1","RUN_S":"5.0"},"estimate_s":20.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(15,1700000090000000,'submitted',4,NULL,'{"spec":{"after":[["afterok",3]],"argv":["work"],"name":"work"},"who":""}');
INSERT INTO "events" VALUES(16,1700000090000000,'submitted',5,NULL,'{"spec":{"argv":["work"],"hold":true,"name":"work","user":"ada"},"who":""}');
INSERT INTO "events" VALUES(17,1700000090000000,'submitted',6,NULL,'{"spec":{"argv":["work"],"array":6,"array_index":0,"array_limit":1,"estimate_s":15.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(18,1700000090000000,'submitted',7,NULL,'{"spec":{"argv":["work"],"array":6,"array_index":1,"array_limit":1,"estimate_s":15.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(19,1700000090000000,'submitted',8,NULL,'{"spec":{"argv":["work"],"array":6,"array_index":2,"array_limit":1,"estimate_s":15.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(20,1700000090000000,'audit',NULL,NULL,'{"what":"a token was refused","who":"somebody"}');
INSERT INTO "events" VALUES(22,1700000090000000,'intended',6,1,'{"rows":[[0,4]],"decision":5}');
INSERT INTO "events" VALUES(23,1700000090000000,'intended',3,1,'{"rows":[[0,8]],"decision":5}');
INSERT INTO "events" VALUES(24,1700000090000000,'started',6,1,'{"began_us":1700000090000000,"pid":1}');
INSERT INTO "events" VALUES(25,1700000090000000,'started',3,1,'{"began_us":1700000090000000,"pid":1}');
INSERT INTO "events" VALUES(26,1700000095000000,'ended',3,1,'{"over_us":1700000095000000,"state":"FAILED","reason":"","values":{"exit_code":1,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(28,1700000095000000,'cancel',4,NULL,'{"who":"flyball","reason":"dependency-never-satisfied: job 3 is FAILED"}');
INSERT INTO "events" VALUES(31,1700000100000000,'ended',2,1,'{"over_us":1700000100000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(33,1700000105000000,'ended',6,1,'{"over_us":1700000105000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(35,1700000105000000,'intended',7,1,'{"rows":[[0,1]],"decision":10}');
INSERT INTO "events" VALUES(36,1700000105000000,'started',7,1,'{"began_us":1700000105000000,"pid":1}');
INSERT INTO "events" VALUES(37,1700000120000000,'ended',7,1,'{"over_us":1700000120000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(39,1700000120000000,'intended',8,1,'{"rows":[[0,1]],"decision":11}');
INSERT INTO "events" VALUES(40,1700000120000000,'started',8,1,'{"began_us":1700000120000000,"pid":1}');
INSERT INTO "events" VALUES(41,1700000135000000,'ended',8,1,'{"over_us":1700000135000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(43,1700000135000000,'intended',1,2,'{"rows":[[0,15]],"decision":12}');
INSERT INTO "events" VALUES(44,1700000135000000,'started',1,2,'{"began_us":1700000135000000,"pid":1}');
INSERT INTO "events" VALUES(45,1700000150000000,'held',5,NULL,'{"by":"root","who":"api"}');
INSERT INTO "events" VALUES(46,1700000150000000,'released',5,NULL,'{"why":"release","who":"api"}');
INSERT INTO "events" VALUES(49,1700000180000000,'submitted',9,NULL,'{"spec":{"argv":["work"],"cpus":4,"estimate_s":900.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(51,1700000181000000,'cancel',9,NULL,'{"who":"api"}');
INSERT INTO "events" VALUES(54,1700000435000000,'ended',1,2,'{"over_us":1700000435000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(56,1700000435000000,'intended',5,1,'{"rows":[[0,1]],"decision":18}');
INSERT INTO "events" VALUES(57,1700000435000000,'started',5,1,'{"began_us":1700000435000000,"pid":1}');
INSERT INTO "events" VALUES(58,1700000445000000,'ended',5,1,'{"over_us":1700000445000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(59,1700000701000000,'submitted',10,NULL,'{"spec":{"argv":["work"],"cpus":2,"estimate_s":400.0,"least":1,"most":4,"name":"grow","user":"ben"},"who":""}');
INSERT INTO "events" VALUES(61,1700000701000000,'intended',10,1,'{"rows":[[0,3]],"decision":19}');
INSERT INTO "events" VALUES(62,1700000701000000,'started',10,1,'{"began_us":1700000701000000,"pid":1}');
INSERT INTO "events" VALUES(63,1700000706000000,'predicted',NULL,NULL,'{"runs":[[10,3,300.0,350.0,380.0,420.0,500.0,600.0,700.0]]}');
INSERT INTO "events" VALUES(64,1700000706000000,'scaled',10,NULL,'{"parallel":0.8,"changes":1}');
INSERT INTO "events" VALUES(65,1700000711000000,'resized',10,1,'{"devices":1,"reason":"ordered","who":"api","rows":[[0,1]],"order":1}');
INSERT INTO "events" VALUES(66,1700000711000000,'capped',10,1,'{"reason":"ordered","who":"api","share":0.5}');
INSERT INTO "events" VALUES(67,1700000711000000,'checkpointed',10,1,'{"reason":"ordered","who":"api"}');
INSERT INTO "events" VALUES(69,1700000781000000,'resized',10,1,'{"devices":2,"reason":"grew","gain":0.0014927344265709503,"who":"tuner","rows":[[0,3]]}');
INSERT INTO "events" VALUES(70,1700000781000000,'capped',10,1,'{"reason":"ordered","who":"api","share":1.0}');
INSERT INTO "events" VALUES(72,1700000911000000,'requeued',10,1,'{"over_us":1700000911000000,"why":"lost"}');
INSERT INTO "events" VALUES(74,1700000911000000,'intended',10,2,'{"rows":[[0,3]],"decision":22}');
INSERT INTO "events" VALUES(75,1700000911000000,'started',10,2,'{"began_us":1700000911000000,"pid":1}');
INSERT INTO "events" VALUES(76,1700000916000000,'submitted',11,NULL,'{"spec":{"argv":["work"],"begin_time":1700000936.0,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(77,1700000976000000,'released',11,NULL,'{"why":"begin"}');
INSERT INTO "events" VALUES(79,1700000976000000,'intended',11,1,'{"rows":[[0,4]],"decision":23}');
INSERT INTO "events" VALUES(80,1700000976000000,'started',11,1,'{"began_us":1700000976000000,"pid":1}');
INSERT INTO "events" VALUES(81,1700000986000000,'ended',11,1,'{"over_us":1700000986000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(82,1700001311000000,'ended',10,2,'{"over_us":1700001311000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit","progress":{"step":7,"loss":0.5}}}');
INSERT INTO "events" VALUES(83,1700001311000000,'opened',NULL,NULL,'{"version":"0.1.0","policy":"srtf","knobs":{"order":"remaining","backfill":"skip","place":"best-fit","preempt":"rounds","span":"whole","depth":1000,"hold_s":14400.0,"ageing":0.0,"priority_s":1000000000000.0,"round_s":30.0,"margin_s":5.0,"attained_s":3600.0,"cap":1.0,"sleep_s":-1.0,"solve_s":0.0,"attained2_s":0.0,"promote":0.0,"half_life_s":86400.0},"cluster":"live","budget_w":0.0,"nodes":[{"name":"g","device":"V100","devices":4,"cpus":16,"memory_mib":8192,"uuids":["u0","u1","u2","u3"],"up":true}],"tuners":["elastic"],"tuner_settings":["elastic.gap_s=30"]}');
INSERT INTO "events" VALUES(84,1700001311000000,'submitted',12,NULL,'{"spec":{"argv":["work"],"checkpoint_signal":10,"estimate_s":200.0,"gpus":2,"least":1,"most":4,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(86,1700001311000000,'intended',12,1,'{"rows":[[0,3]],"decision":24}');
INSERT INTO "events" VALUES(87,1700001311000000,'started',12,1,'{"began_us":1700001311000000,"pid":1}');
INSERT INTO "events" VALUES(88,1700001321000000,'resized',12,1,'{"devices":3,"reason":"ordered","who":"api","rows":[],"order":1}');
INSERT INTO "events" VALUES(89,1700001321000000,'stopping',12,1,'{"why":"preempt","order":1}');
INSERT INTO "events" VALUES(90,1700001321000000,'requeued',12,1,'{"over_us":1700001321000000,"why":"preempt","values":{"exit_code":0,"signal":0,"why":"stopped"}}');
INSERT INTO "events" VALUES(92,1700001321000000,'intended',12,2,'{"rows":[[0,7]],"decision":25}');
INSERT INTO "events" VALUES(93,1700001321000000,'started',12,2,'{"began_us":1700001321000000,"pid":1}');
INSERT INTO "events" VALUES(95,1700001421000000,'submitted',13,NULL,'{"spec":{"argv":["work"],"estimate_s":50.0,"gpus":1,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(97,1700001421000000,'intended',13,1,'{"rows":[[0,8]],"decision":27}');
INSERT INTO "events" VALUES(98,1700001421000000,'started',13,1,'{"began_us":1700001421000000,"pid":1}');
INSERT INTO "events" VALUES(99,1700001424000000,'submitted',14,NULL,'{"spec":{"argv":["work"],"estimate_s":5000.0,"gpus":4,"name":"work","user":"zoe"},"who":""}');
INSERT INTO "events" VALUES(100,1700001424000000,'submitted',15,NULL,'{"spec":{"argv":["work"],"gpus":1,"hold":true,"name":"work"},"who":""}');
INSERT INTO "events" VALUES(102,1700001471000000,'ended',13,1,'{"over_us":1700001471000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(104,1700001521000000,'ended',12,2,'{"over_us":1700001521000000,"state":"COMPLETED","values":{"exit_code":0,"signal":0,"why":"exit"}}');
INSERT INTO "events" VALUES(106,1700001521000000,'intended',14,1,'{"rows":[[0,15]],"decision":30}');
INSERT INTO "events" VALUES(107,1700001521000000,'started',14,1,'{"began_us":1700001521000000,"pid":1}');
CREATE TABLE jobs (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	user TEXT NOT NULL, 
	tenant TEXT NOT NULL, 
	array INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	submit_us INTEGER NOT NULL, 
	since_us INTEGER NOT NULL, 
	started_us INTEGER NOT NULL, 
	first_start_us INTEGER NOT NULL, 
	end_us INTEGER NOT NULL, 
	stopping TEXT NOT NULL, 
	service_us DOUBLE NOT NULL, 
	preemptions INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	rows TEXT NOT NULL, 
	"values" TEXT NOT NULL, 
	spec TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "jobs" VALUES(1,'long','ada','',0,'COMPLETED',2,1700000000000000,1700000135000000,1700000135000000,1700000000000000,1700000435000000,'',1560000000.0,1,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":390.0,"counted_s":0.0,"spans":[[1700000000000000,1700000090000000,[[0,15]],null],[1700000135000000,1700000435000000,[[0,15]],null]]}','{"argv":["work"],"cpus":4,"estimate_s":300.0,"name":"long","user":"ada"}');
INSERT INTO "jobs" VALUES(2,'work','ben','',0,'COMPLETED',1,1700000000000000,1700000090000000,1700000090000000,1700000090000000,1700000100000000,'',20000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":10.0,"counted_s":0.0,"spans":[[1700000090000000,1700000100000000,[[0,3]],null]]}','{"argv":["work"],"cpus":2,"estimate_s":10.0,"memory_mib":100,"name":"work","user":"ben"}');
INSERT INTO "jobs" VALUES(3,'work','','',0,'FAILED',1,1700000090000000,1700000090000000,1700000090000000,1700000090000000,1700000095000000,'',5000000.0,0,0,'','[]','{"exit_code":1,"signal":0,"why":"exit","active_s":5.0,"counted_s":0.0,"spans":[[1700000090000000,1700000095000000,[[0,8]],null]]}','{"argv":["work"],"env":{"CODE":"1","RUN_S":"5.0"},"estimate_s":20.0,"name":"work"}');
INSERT INTO "jobs" VALUES(4,'work','','',0,'CANCELLED',0,1700000090000000,0,0,0,1700000095000000,'',0.0,0,0,'dependency-never-satisfied: job 3 is FAILED','[]','{}','{"after":[["afterok",3]],"argv":["work"],"name":"work"}');
INSERT INTO "jobs" VALUES(5,'work','ada','',0,'COMPLETED',1,1700000090000000,1700000435000000,1700000435000000,1700000435000000,1700000445000000,'',10000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":10.0,"counted_s":0.0,"spans":[[1700000435000000,1700000445000000,[[0,1]],null]]}','{"argv":["work"],"hold":true,"name":"work","user":"ada"}');
INSERT INTO "jobs" VALUES(6,'work','','',6,'COMPLETED',1,1700000090000000,1700000090000000,1700000090000000,1700000090000000,1700000105000000,'',15000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":15.0,"counted_s":0.0,"spans":[[1700000090000000,1700000105000000,[[0,4]],null]]}','{"argv":["work"],"array":6,"array_index":0,"array_limit":1,"estimate_s":15.0,"name":"work"}');
INSERT INTO "jobs" VALUES(7,'work','','',6,'COMPLETED',1,1700000090000000,1700000105000000,1700000105000000,1700000105000000,1700000120000000,'',15000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":15.0,"counted_s":0.0,"spans":[[1700000105000000,1700000120000000,[[0,1]],null]]}','{"argv":["work"],"array":6,"array_index":1,"array_limit":1,"estimate_s":15.0,"name":"work"}');
INSERT INTO "jobs" VALUES(8,'work','','',6,'COMPLETED',1,1700000090000000,1700000120000000,1700000120000000,1700000120000000,1700000135000000,'',15000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":15.0,"counted_s":0.0,"spans":[[1700000120000000,1700000135000000,[[0,1]],null]]}','{"argv":["work"],"array":6,"array_index":2,"array_limit":1,"estimate_s":15.0,"name":"work"}');
INSERT INTO "jobs" VALUES(9,'work','','',0,'CANCELLED',0,1700000180000000,0,0,0,1700000181000000,'',0.0,0,0,'','[]','{}','{"argv":["work"],"cpus":4,"estimate_s":900.0,"name":"work"}');
INSERT INTO "jobs" VALUES(10,'grow','ben','',0,'COMPLETED',2,1700000701000000,1700000911000000,1700000911000000,1700000701000000,1700001311000000,'',1150000000.0,0,1,'','[]','{"predicted_s":[3,300.0,350.0,380.0,420.0,500.0,600.0,700.0],"scaling":[0.8,1],"tuned":{"sequence":5,"orders":{"resized":4,"capped":5,"checkpointed":3},"log":[{"time":1700000711.0,"what":"resized","before":2,"after":1,"reason":"ordered","who":"api"},{"time":1700000711.0,"what":"capped","before":1.0,"after":0.5,"reason":"ordered","who":"api"},{"time":1700000711.0,"what":"checkpointed","before":null,"after":null,"reason":"ordered","who":"api"},{"time":1700000781.0,"what":"resized","before":1,"after":2,"reason":"grew","gain":0.0014927344265709503,"who":"tuner"},{"time":1700000781.0,"what":"capped","before":0.5,"after":1.0,"reason":"ordered","who":"api"}],"devices":2,"since_us":1700000781000000,"moves":1,"share":1.0,"saves":1},"active_s":610.0,"counted_s":0.0,"spans":[[1700000701000000,1700000911000000,[[0,3]],null],[1700000911000000,1700001311000000,[[0,3]],null]],"exit_code":0,"signal":0,"why":"exit","progress":{"step":7,"loss":0.5}}','{"argv":["work"],"cpus":2,"estimate_s":400.0,"least":1,"most":4,"name":"grow","user":"ben"}');
INSERT INTO "jobs" VALUES(11,'work','','',0,'COMPLETED',1,1700000916000000,1700000976000000,1700000976000000,1700000976000000,1700000986000000,'',10000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":10.0,"counted_s":0.0,"spans":[[1700000976000000,1700000986000000,[[0,4]],null]]}','{"argv":["work"],"begin_time":1700000936.0,"name":"work"}');
INSERT INTO "jobs" VALUES(12,'work','','',0,'COMPLETED',2,1700001311000000,1700001321000000,1700001321000000,1700001311000000,1700001521000000,'',620000000.0,1,0,'','[]','{"tuned":{"sequence":1,"orders":{"resized":1},"log":[{"time":1700001321.0,"what":"resized","before":2,"after":3,"reason":"ordered","who":"api"}],"devices":3,"wants":[]},"exit_code":0,"signal":0,"why":"exit","active_s":210.0,"counted_s":0.0,"spans":[[1700001311000000,1700001321000000,[[0,3]],null],[1700001321000000,1700001521000000,[[0,7]],null]]}','{"argv":["work"],"checkpoint_signal":10,"estimate_s":200.0,"gpus":2,"least":1,"most":4,"name":"work"}');
INSERT INTO "jobs" VALUES(13,'work','','',0,'COMPLETED',1,1700001421000000,1700001421000000,1700001421000000,1700001421000000,1700001471000000,'',50000000.0,0,0,'','[]','{"exit_code":0,"signal":0,"why":"exit","active_s":50.0,"counted_s":0.0,"spans":[[1700001421000000,1700001471000000,[[0,8]],null]]}','{"argv":["work"],"estimate_s":50.0,"gpus":1,"name":"work"}');
INSERT INTO "jobs" VALUES(14,'work','zoe','',0,'RUNNING',1,1700001424000000,1700001521000000,1700001521000000,1700001521000000,0,'',0.0,0,0,'','[[0,15]]','{}','{"argv":["work"],"estimate_s":5000.0,"gpus":4,"name":"work","user":"zoe"}');
INSERT INTO "jobs" VALUES(15,'work','','',0,'PENDING',0,1700001424000000,0,0,0,0,'',0.0,0,0,'','[]','{"held":{"by":""}}','{"argv":["work"],"gpus":1,"hold":true,"name":"work"}');
CREATE TABLE keys (
	"key" TEXT NOT NULL, 
	answer TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	time_us INTEGER NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "keys" VALUES('k1','{"first":2,"count":1,"print":"6a04344f6f2e59ecab6292685af6c957bc5ece82c1e4b8a07735192192f897ab"}',6,1700000000000000);
INSERT INTO "keys" VALUES('k2','{"id":10,"devices":1,"print":"e2e568e776ab09d23f8df1e9bc8cdb305cc7c83a6631d0c32821cbac8c85ca8a"}',65,1700000711000000);
INSERT INTO "keys" VALUES('k3','{"id":10,"share":0.5,"print":"a6a0ead2c277310e2e76e8e58bb76905c6004362417576d140f2abbfa5f7aff9"}',66,1700000711000000);
CREATE TABLE meta (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('last_us','1700001574000000');
INSERT INTO "meta" VALUES('tried','44');
CREATE INDEX events_kind ON events (kind);
CREATE INDEX events_job ON events (job);
CREATE INDEX jobs_state ON jobs (state);
CREATE INDEX jobs_user ON jobs (user);
CREATE INDEX jobs_tenant ON jobs (tenant);
CREATE INDEX jobs_array ON jobs (array);
CREATE INDEX jobs_submit_us ON jobs (submit_us);
CREATE INDEX jobs_end_us ON jobs (end_us);
CREATE UNIQUE INDEX decisions_seq ON decisions (seq);
COMMIT;
